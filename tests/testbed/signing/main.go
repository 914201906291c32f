// Signs images in a registry the way cosign does, for tests: by a key and by a certificate, in the two forms that
// signatures have there. It is its own certificate authority, log of certificates and log of signatures, which it
// describes in a trusted_root.json.
//
//	signer make DIR                 makes keys, authorities and trusted_root.json in DIR
//	signer sign DIR [options]       puts one signature beside an image
//	signer referrers URL            is a registry in front of the one at URL that knows the referrers API
package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
)

const (
	bundleType  = "application/vnd.dev.sigstore.bundle.v0.3+json"
	simpleType  = "application/vnd.dev.cosign.simplesigning.v1+json"
	manifest    = "application/vnd.oci.image.manifest.v1+json"
	index       = "application/vnd.oci.image.index.v1+json"
	payloadType = "application/vnd.in-toto+json"
	emptyType   = "application/vnd.oci.empty.v1+json"
)

type object = map[string]any

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func b64(data []byte) string { return base64.StdEncoding.EncodeToString(data) }

func hash(data []byte) []byte {
	sum := sha256.Sum256(data)
	return sum[:]
}

func digestOf(data []byte) string { return "sha256:" + hex.EncodeToString(hash(data)) }

func encode(value any) []byte { return must(json.Marshal(value)) }

func sign(key *ecdsa.PrivateKey, message []byte) []byte {
	return must(ecdsa.SignASN1(rand.Reader, key, hash(message)))
}

func public(key *ecdsa.PrivateKey) []byte { return must(x509.MarshalPKIXPublicKey(&key.PublicKey)) }

// key reads a private key of the folder, or makes it, and its public half beside it.
func key(dir, name string) *ecdsa.PrivateKey {
	path := filepath.Join(dir, name+".key")
	if data, err := os.ReadFile(path); err == nil {
		block, _ := pem.Decode(data)
		return must(x509.ParsePKCS8PrivateKey(block.Bytes)).(*ecdsa.PrivateKey)
	}
	made := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	private := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: must(x509.MarshalPKCS8PrivateKey(made))})
	check(os.WriteFile(path, private, 0o600))
	half := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public(made)})
	check(os.WriteFile(filepath.Join(dir, name+".pub"), half, 0o644))
	return made
}

func main() {
	log.SetFlags(0)
	switch command := os.Args[1]; command {
	case "make":
		key(os.Args[2], "signing")
		key(os.Args[2], "other")
		newInstance(os.Args[2]).describe()
	case "sign":
		signImage(os.Args[2], os.Args[3:])
	case "referrers":
		serveReferrers(must(url.Parse(os.Args[2])))
	default:
		log.Fatalf("unknown command %q", command)
	}
}

func signImage(dir string, args []string) {
	flags := flag.NewFlagSet("sign", flag.ExitOnError)
	registry := flags.String("registry", "", "HOST:PORT of the registry")
	login := flags.String("login", "", "NAME:PASSWORD")
	repository := flags.String("repository", "", "the repository")
	image := flags.String("digest", "", "the digest of the image")
	subject := flags.String("subject", "", "the digest that is signed, if it is another one")
	form := flags.String("form", "bundle", "bundle, or simple for the tag sha256-….sig")
	by := flags.String("key", "", "a key; a certificate otherwise")
	identity := flags.String("identity", "", "URI in the certificate")
	issuer := flags.String("issuer", "", "OIDC issuer in the certificate")
	source := flags.String("source", "", "URI of the source repository in the certificate")
	predicate := flags.String("predicate", "https://sigstore.dev/cosign/sign/v1", "type of the statement")
	change := flags.String("change", "", "payload, certificate, log or time: what is changed after signing")
	check(flags.Parse(args))
	if *subject == "" {
		*subject = *image
	}
	target := &repo{base: "http://" + *registry + "/v2/" + *repository, login: *login}
	signer := &signer{dir: dir, change: *change}
	if *by != "" {
		signer.key = key(dir, *by)
	} else {
		signer.key = must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
		signer.instance = newInstance(dir)
		signer.certificate = signer.instance.certify(&signer.key.PublicKey, *identity, *issuer, *source)
	}
	name := strings.Split(*registry, ":")[0] + "/" + *repository
	if *form == "simple" {
		target.attachSimple(*image, signer.simple(name, *subject))
	} else {
		target.attachBundle(*image, signer.bundle(*subject, *predicate))
	}
}

// repo is a repository of a registry.
type repo struct{ base, login string }

func (r *repo) do(method, path, kind string, body []byte) (int, []byte, http.Header) {
	address := path
	if !strings.HasPrefix(path, "http") {
		address = r.base + path
	}
	request := must(http.NewRequest(method, address, bytes.NewReader(body)))
	if kind != "" {
		request.Header.Set("Content-Type", kind)
		request.Header.Set("Accept", kind)
	}
	if name, password, ok := strings.Cut(r.login, ":"); ok {
		request.SetBasicAuth(name, password)
	}
	response := must(http.DefaultClient.Do(request))
	defer response.Body.Close()
	return response.StatusCode, must(io.ReadAll(response.Body)), response.Header
}

func (r *repo) put(reference, kind string, body []byte) {
	if status, answer, _ := r.do("PUT", "/manifests/"+reference, kind, body); status != http.StatusCreated {
		log.Fatalf("PUT %s: %d %s", reference, status, answer)
	}
}

// blob uploads a blob and returns its descriptor.
func (r *repo) blob(kind string, data []byte) object {
	status, answer, headers := r.do("POST", "/blobs/uploads/", "", nil)
	if status != http.StatusAccepted {
		log.Fatalf("upload: %d %s", status, answer)
	}
	place := must(url.Parse(headers.Get("Location")))
	query := place.Query()
	query.Set("digest", digestOf(data))
	place.RawQuery = query.Encode()
	if status, answer, _ := r.do("PUT", place.String(), "application/octet-stream", data); status != http.StatusCreated {
		log.Fatalf("upload: %d %s", status, answer)
	}
	return object{"mediaType": kind, "digest": digestOf(data), "size": len(data)}
}

// attachSimple adds a layer to the manifest that is tagged as the image's signatures.
func (r *repo) attachSimple(image string, signed simple) {
	tag := strings.Replace(image, ":", "-", 1) + ".sig"
	var layers []any
	if status, body, _ := r.do("GET", "/manifests/"+tag, manifest, nil); status == http.StatusOK {
		var known struct{ Layers []any }
		check(json.Unmarshal(body, &known))
		layers = known.Layers
	}
	layer := r.blob(simpleType, signed.payload)
	layer["annotations"] = signed.annotations
	config := r.blob("application/vnd.oci.image.config.v1+json", []byte("{}"))
	document := object{"schemaVersion": 2, "mediaType": manifest, "config": config, "layers": append(layers, layer)}
	r.put(tag, manifest, encode(document))
}

// attachBundle pushes an artifact that refers to the image, and lists it where registries without the API have it.
func (r *repo) attachBundle(image string, bundle []byte) {
	_, body, headers := r.do("GET", "/manifests/"+image, manifest+", application/vnd.docker.distribution.manifest.v2+json", nil)
	annotations := object{"dev.sigstore.bundle.content": "dsse-envelope"}
	document := encode(object{
		"schemaVersion": 2, "mediaType": manifest, "artifactType": bundleType,
		"config":      r.blob(emptyType, []byte("{}")),
		"layers":      []any{r.blob(bundleType, bundle)},
		"subject":     object{"mediaType": headers.Get("Content-Type"), "digest": image, "size": len(body)},
		"annotations": annotations,
	})
	r.put(digestOf(document), manifest, document)
	tag := strings.Replace(image, ":", "-", 1)
	var manifests []any
	if status, body, _ := r.do("GET", "/manifests/"+tag, index, nil); status == http.StatusOK {
		var known struct{ Manifests []any }
		check(json.Unmarshal(body, &known))
		manifests = known.Manifests
	}
	manifests = append(manifests, object{
		"mediaType": manifest, "artifactType": bundleType, "digest": digestOf(document), "size": len(document),
		"annotations": annotations,
	})
	r.put(tag, index, encode(object{"schemaVersion": 2, "mediaType": index, "manifests": manifests}))
}

// serveReferrers answers the referrers API from the tags of a registry that does not have it, and hides those tags.
func serveReferrers(registry *url.URL) {
	proxy := httputil.NewSingleHostReverseProxy(registry)
	handler := http.HandlerFunc(func(writer http.ResponseWriter, request *http.Request) {
		name, digest, found := strings.Cut(request.URL.Path, "/referrers/")
		if found {
			request.URL.Path = name + "/manifests/" + strings.Replace(digest, ":", "-", 1)
		} else if _, tag, _ := strings.Cut(request.URL.Path, "/manifests/"); strings.HasPrefix(tag, "sha256-") {
			http.NotFound(writer, request)
			return
		}
		proxy.ServeHTTP(writer, request)
	})
	listener := must(net.Listen("tcp", "127.0.0.1:0"))
	fmt.Println(listener.Addr())
	check(http.Serve(listener, handler))
}
