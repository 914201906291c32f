//! Lists the supported clients, with the paths of their configuration files and the format of their entries.
//!
//! A path outside of a project begins with `~` for the home folder, `CONFIG` for the configuration folder
//! (`XDG_CONFIG_HOME`), `SUPPORT` for `~/Library/Application Support`, or `APPDATA` for the folder in the variable of
//! that name.

use super::edit::Syntax;

/// How one client is configured.
#[derive(Debug)]
pub(super) struct ClientFormat {
    /// The name on the command line.
    pub(super) id: &'static str,
    /// The name of the product.
    pub(super) name: &'static str,
    pub(super) syntax: Syntax,
    /// The keys that lead to the map of servers.
    pub(super) map: &'static [&'static str],
    /// Other keys, which are used if the file has a map there.
    pub(super) other_map: Option<&'static [&'static str]>,
    /// The user's files. The first that exists is used, or the first.
    pub(super) linux: &'static [&'static str],
    pub(super) macos: &'static [&'static str],
    pub(super) windows: &'static [&'static str],
    /// A variable that names the folder of the user's file, and the name of the file.
    pub(super) variable: Option<(&'static str, &'static str)>,
    /// Files below a project's folder; empty if the client has none.
    pub(super) project: &'static [&'static str],
    /// Folders and files that show that the client is installed, besides the folder of its file.
    pub(super) signs: &'static [&'static str],
    /// Programs that show that the client is installed.
    pub(super) programs: &'static [&'static str],
    /// The form of an entry with a URL, for servers that speak streamable HTTP; `None` if the client starts commands only.
    pub(super) http: Option<HttpFormat>,
    pub(super) command: CommandFormat,
}

/// The form of an entry with a URL.
#[derive(Debug)]
pub(super) struct HttpFormat {
    pub(super) fixed: &'static [(&'static str, Fixed)],
    /// The field with the URL.
    pub(super) url: &'static str,
    pub(super) token: TokenReference,
}

/// The form of an entry with a command.
#[derive(Debug)]
pub(super) struct CommandFormat {
    pub(super) fixed: &'static [(&'static str, Fixed)],
    pub(super) program: &'static str,
    /// The field with the arguments; `None` if they follow the program in a list.
    pub(super) args: Option<&'static str>,
    pub(super) env: &'static str,
}

/// A field that is the same for all servers, or the name of the server.
#[derive(Debug, Clone, Copy)]
pub(super) enum Fixed {
    Text(&'static str),
    Flag(bool),
    Name,
}

/// How an entry refers to a bearer token in an environment variable.
#[derive(Debug, Clone, Copy)]
pub(super) enum TokenReference {
    /// In the value of a header, between these texts.
    Header(&'static str, &'static str),
    /// In a field with the name of the variable.
    Field(&'static str),
    /// The client's documentation has no reference to variables in headers.
    Unsupported,
}

/// The format that most clients have adopted from Claude Desktop.
const COMMAND: CommandFormat =
    CommandFormat { fixed: &[], program: "command", args: Some("args"), env: "env" };
const TYPED_COMMAND: CommandFormat = CommandFormat { fixed: &[("type", Fixed::Text("stdio"))], ..COMMAND };

/// All clients, in the order in which they are listed.
pub(super) const CLIENTS: &[ClientFormat] = &[
    // https://code.claude.com/docs/en/mcp and https://code.claude.com/docs/en/settings
    ClientFormat {
        id: "claude-code",
        name: "Claude Code",
        syntax: Syntax::Json,
        map: &["mcpServers"],
        other_map: None,
        linux: &["~/.claude.json"],
        macos: &["~/.claude.json"],
        windows: &["~/.claude.json"],
        variable: Some(("CLAUDE_CONFIG_DIR", ".claude.json")),
        project: &[".mcp.json"],
        signs: &["~/.claude", "~/.claude.json"],
        programs: &["claude"],
        http: Some(HttpFormat {
            fixed: &[("type", Fixed::Text("http"))],
            url: "url",
            token: TokenReference::Header("${", "}"),
        }),
        command: TYPED_COMMAND,
    },
    // https://modelcontextprotocol.io/docs/develop/connect-local-servers; remote servers are not in the file
    ClientFormat {
        id: "claude-desktop",
        name: "Claude Desktop",
        syntax: Syntax::Json,
        map: &["mcpServers"],
        other_map: None,
        linux: &["CONFIG/Claude/claude_desktop_config.json"],
        macos: &["SUPPORT/Claude/claude_desktop_config.json"],
        windows: &["APPDATA/Claude/claude_desktop_config.json"],
        variable: None,
        project: &[],
        signs: &[],
        programs: &["claude-desktop"],
        http: None,
        command: COMMAND,
    },
    // https://cursor.com/docs/context/mcp
    ClientFormat {
        id: "cursor",
        name: "Cursor",
        syntax: Syntax::Json,
        map: &["mcpServers"],
        other_map: None,
        linux: &["~/.cursor/mcp.json"],
        macos: &["~/.cursor/mcp.json"],
        windows: &["~/.cursor/mcp.json"],
        variable: None,
        project: &[".cursor/mcp.json"],
        signs: &[],
        programs: &["cursor", "cursor-agent"],
        http: Some(HttpFormat { fixed: &[], url: "url", token: TokenReference::Header("${env:", "}") }),
        command: COMMAND,
    },
    // https://code.visualstudio.com/docs/copilot/reference/mcp-configuration
    ClientFormat {
        id: "vscode",
        name: "VS Code",
        syntax: Syntax::Json,
        map: &["servers"],
        other_map: None,
        linux: &["CONFIG/Code/User/mcp.json", "CONFIG/Code - Insiders/User/mcp.json"],
        macos: &["SUPPORT/Code/User/mcp.json", "SUPPORT/Code - Insiders/User/mcp.json"],
        windows: &["APPDATA/Code/User/mcp.json", "APPDATA/Code - Insiders/User/mcp.json"],
        variable: None,
        project: &[".vscode/mcp.json"],
        signs: &[],
        programs: &["code", "code-insiders"],
        http: Some(HttpFormat {
            fixed: &[("type", Fixed::Text("http"))],
            url: "url",
            token: TokenReference::Header("${env:", "}"),
        }),
        command: TYPED_COMMAND,
    },
    // https://docs.windsurf.com/windsurf/cascade/mcp
    ClientFormat {
        id: "windsurf",
        name: "Windsurf",
        syntax: Syntax::Json,
        map: &["mcpServers"],
        other_map: None,
        linux: &["~/.codeium/windsurf/mcp_config.json"],
        macos: &["~/.codeium/windsurf/mcp_config.json"],
        windows: &["~/.codeium/windsurf/mcp_config.json"],
        variable: None,
        project: &[],
        signs: &[],
        programs: &["windsurf"],
        http: Some(HttpFormat { fixed: &[], url: "serverUrl", token: TokenReference::Header("${env:", "}") }),
        command: COMMAND,
    },
    // https://zed.dev/docs/ai/mcp and https://zed.dev/docs/configuring-zed
    ClientFormat {
        id: "zed",
        name: "Zed",
        syntax: Syntax::Json,
        map: &["context_servers"],
        other_map: None,
        linux: &["CONFIG/zed/settings.json"],
        macos: &["~/.config/zed/settings.json"],
        windows: &["APPDATA/Zed/settings.json"],
        variable: None,
        project: &[".zed/settings.json"],
        signs: &[],
        programs: &["zed", "zeditor"],
        http: Some(HttpFormat { fixed: &[], url: "url", token: TokenReference::Unsupported }),
        command: COMMAND,
    },
    // https://docs.cline.bot/mcp/adding-and-configuring-servers: the extension's file, then that of the command line
    ClientFormat {
        id: "cline",
        name: "Cline",
        syntax: Syntax::Json,
        map: &["mcpServers"],
        other_map: None,
        linux: &[
            "CONFIG/Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json",
            "~/.cline/data/settings/cline_mcp_settings.json",
        ],
        macos: &[
            "SUPPORT/Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json",
            "~/.cline/data/settings/cline_mcp_settings.json",
        ],
        windows: &[
            "APPDATA/Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json",
            "~/.cline/data/settings/cline_mcp_settings.json",
        ],
        variable: None,
        project: &[],
        signs: &["~/.cline"],
        programs: &["cline"],
        http: Some(HttpFormat {
            fixed: &[("type", Fixed::Text("streamableHttp"))],
            url: "url",
            token: TokenReference::Unsupported,
        }),
        command: COMMAND,
    },
    // https://docs.continue.dev/customize/deep-dives/mcp: files in JSON beside those in Continue's own format; the user's
    // folder of such files is in https://github.com/continuedev/continue/blob/main/core/context/mcp/json/loadJsonMcpConfigs.ts
    ClientFormat {
        id: "continue",
        name: "Continue",
        syntax: Syntax::Json,
        map: &["mcpServers"],
        other_map: None,
        linux: &["~/.continue/mcpServers/mcpm.json"],
        macos: &["~/.continue/mcpServers/mcpm.json"],
        windows: &["~/.continue/mcpServers/mcpm.json"],
        variable: None,
        project: &[".continue/mcpServers/mcpm.json"],
        signs: &["~/.continue"],
        programs: &["cn"],
        http: Some(HttpFormat {
            fixed: &[("type", Fixed::Text("http"))],
            url: "url",
            token: TokenReference::Unsupported,
        }),
        command: TYPED_COMMAND,
    },
    // https://geminicli.com/docs/tools/mcp-server and https://geminicli.com/docs/reference/configuration
    ClientFormat {
        id: "gemini-cli",
        name: "Gemini CLI",
        syntax: Syntax::Json,
        map: &["mcpServers"],
        other_map: None,
        linux: &["~/.gemini/settings.json"],
        macos: &["~/.gemini/settings.json"],
        windows: &["~/.gemini/settings.json"],
        variable: None,
        project: &[".gemini/settings.json"],
        signs: &[],
        programs: &["gemini"],
        http: Some(HttpFormat { fixed: &[], url: "httpUrl", token: TokenReference::Header("${", "}") }),
        command: COMMAND,
    },
    // https://developers.openai.com/codex/mcp
    ClientFormat {
        id: "codex",
        name: "Codex CLI",
        syntax: Syntax::Toml,
        map: &["mcp_servers"],
        other_map: None,
        linux: &["~/.codex/config.toml"],
        macos: &["~/.codex/config.toml"],
        windows: &["~/.codex/config.toml"],
        variable: Some(("CODEX_HOME", "config.toml")),
        project: &[".codex/config.toml"],
        signs: &[],
        programs: &["codex"],
        http: Some(HttpFormat {
            fixed: &[],
            url: "url",
            token: TokenReference::Field("bearer_token_env_var"),
        }),
        command: COMMAND,
    },
    // https://goose-docs.ai/docs/guides/config-files
    ClientFormat {
        id: "goose",
        name: "Goose",
        syntax: Syntax::Yaml,
        map: &["extensions"],
        other_map: None,
        linux: &["CONFIG/goose/config.yaml"],
        macos: &["~/.config/goose/config.yaml"],
        windows: &["APPDATA/Block/goose/config/config.yaml"],
        variable: None,
        project: &[],
        signs: &[],
        programs: &["goose"],
        http: Some(HttpFormat {
            fixed: &[
                ("type", Fixed::Text("streamable_http")),
                ("name", Fixed::Name),
                ("enabled", Fixed::Flag(true)),
            ],
            url: "uri",
            token: TokenReference::Unsupported,
        }),
        command: CommandFormat {
            fixed: &[("type", Fixed::Text("stdio")), ("name", Fixed::Name), ("enabled", Fixed::Flag(true))],
            program: "cmd",
            args: Some("args"),
            env: "envs",
        },
    },
    // https://lmstudio.ai/docs/app/mcp
    ClientFormat {
        id: "lm-studio",
        name: "LM Studio",
        syntax: Syntax::Json,
        map: &["mcpServers"],
        other_map: None,
        linux: &["~/.lmstudio/mcp.json"],
        macos: &["~/.lmstudio/mcp.json", "~/.cache/lm-studio/mcp.json"],
        windows: &["~/.lmstudio/mcp.json"],
        variable: None,
        project: &[],
        signs: &[],
        programs: &["lms", "lm-studio"],
        http: Some(HttpFormat { fixed: &[], url: "url", token: TokenReference::Unsupported }),
        command: COMMAND,
    },
    // https://opencode.ai/docs/mcp-servers and https://opencode.ai/docs/migrate-v1: version 2 has its servers at
    // `mcp.servers`, and reads those of version 1 at `mcp`
    ClientFormat {
        id: "opencode",
        name: "OpenCode",
        syntax: Syntax::Json,
        map: &["mcp"],
        other_map: Some(&["mcp", "servers"]),
        linux: &["CONFIG/opencode/opencode.json", "CONFIG/opencode/opencode.jsonc"],
        macos: &["~/.config/opencode/opencode.json", "~/.config/opencode/opencode.jsonc"],
        windows: &["~/.config/opencode/opencode.json", "~/.config/opencode/opencode.jsonc"],
        variable: None,
        project: &["opencode.json", "opencode.jsonc"],
        signs: &[],
        programs: &["opencode"],
        http: Some(HttpFormat {
            fixed: &[("type", Fixed::Text("remote"))],
            url: "url",
            token: TokenReference::Header("{env:", "}"),
        }),
        command: CommandFormat {
            fixed: &[("type", Fixed::Text("local"))],
            program: "command",
            args: None,
            env: "environment",
        },
    },
];
