// A small MCP server over standard input and output, with nothing but Go's own library.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
)

type request struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		ProtocolVersion string            `json:"protocolVersion"`
		Arguments       map[string]string `json:"arguments"`
	} `json:"params"`
}

func answer(asked request) (any, any) {
	switch asked.Method {
	case "initialize":
		return map[string]any{
			"protocolVersion": asked.Params.ProtocolVersion,
			"capabilities":    map[string]any{"tools": map[string]any{}},
			"serverInfo":      map[string]any{"name": "hello", "version": "1"},
		}, nil
	case "ping":
		return map[string]any{}, nil
	case "tools/list":
		schema := map[string]any{"type": "object", "properties": map[string]any{"name": map[string]any{"type": "string"}}}
		return map[string]any{"tools": []any{map[string]any{"name": "hello", "inputSchema": schema}}}, nil
	case "tools/call":
		text := "hello, " + asked.Params.Arguments["name"]
		return map[string]any{"content": []any{map[string]any{"type": "text", "text": text}}}, nil
	}
	return nil, map[string]any{"code": -32601, "message": "unknown method"}
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var asked request
		if json.Unmarshal(lines.Bytes(), &asked) != nil || asked.ID == nil {
			continue
		}
		message := map[string]any{"jsonrpc": "2.0", "id": asked.ID}
		if result, problem := answer(asked); problem != nil {
			message["error"] = problem
		} else {
			message["result"] = result
		}
		line, _ := json.Marshal(message)
		fmt.Println(string(line))
	}
}
