package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/http/cgi"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/websocket"

	"github.com/srt-sandbox/srt/internal/testutil"
)

// peerWorld is what the programs find: a web server in the clear and one over
// TLS, each with everything, and the proxy that leads there.
type peerWorld struct {
	web, tls  string // URLs
	parent    string // address of the proxy
	authority []byte // PEM of the certificate that vouches for the TLS server
}

func newPeerWorld(t *testing.T) *peerWorld {
	t.Helper()
	authority, certificate := peerCertificates(t)
	clear, secure := testutil.Listen(t), testutil.Listen(t)
	w := &peerWorld{web: "http://" + peerHost + ":" + testutil.Port(clear), tls: "https://" + peerHost + ":" + testutil.Port(secure), parent: upstreamProxy(t), authority: authority}
	mux := http.NewServeMux()
	mux.HandleFunc("/hello", func(out http.ResponseWriter, r *http.Request) { fmt.Fprintf(out, "hello over %s\n", r.Proto) })
	mux.HandleFunc("/sum", func(out http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		fmt.Fprintf(out, "%d bytes, %v\n", n, err)
	})
	mux.HandleFunc("/talk", talk)
	mux.HandleFunc("/peer.Echo/Say", echoMessage)
	mux.HandleFunc("/docker/", dockerDaemon)
	mux.HandleFunc("/gcloud/v1/projects", func(out http.ResponseWriter, _ *http.Request) {
		out.Header().Set("Content-Type", "application/json")
		fmt.Fprint(out, `{"projects":[{"projectId":"peer-project","lifecycleState":"ACTIVE"}]}`)
	})
	mux.Handle("/ws", websocket.Handler(func(c *websocket.Conn) { _, _ = io.Copy(c, c) }))
	mux.Handle("/git/", gitServer(t))
	mux.Handle("/npm/", npmRegistry(w.web))
	mux.Handle("/pip/", pythonIndex())
	mux.Handle("/go/", moduleProxy())
	mux.Handle("/cargo/", crateRegistry())
	mux.HandleFunc("/maven/example/parent/1/parent-1.pom", func(out http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(out, `<project><modelVersion>4.0.0</modelVersion><groupId>example</groupId><artifactId>parent</artifactId><version>1</version><packaging>pom</packaging></project>`)
	})
	inClear := new(http.Protocols)
	inClear.SetHTTP1(true)
	inClear.SetUnencryptedHTTP2(true)
	servers := []*http.Server{{Handler: mux, Protocols: inClear}, {Handler: mux, TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}}}}
	done := make(chan error, len(servers))
	go func() { done <- servers[0].Serve(clear) }()
	go func() { done <- servers[1].ServeTLS(secure, "", "") }()
	t.Cleanup(func() {
		for _, s := range servers {
			s.Close()
		}
		for range servers {
			<-done
		}
	})
	return w
}

// peerCertificates returns an authority and a certificate of the world's host.
func peerCertificates(t *testing.T) (authority []byte, server tls.Certificate) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "peer test"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: peerHost}, DNSNames: []string{peerHost}, NotBefore: ca.NotBefore, NotAfter: ca.NotAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	leafDER, err := x509.CreateCertificate(rand.Reader, leaf, ca, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: caDER}), tls.Certificate{Certificate: [][]byte{leafDER}, PrivateKey: key}
}

// talk answers each line of a request while more of it comes, as a
// bidirectional stream of gRPC does, and ends with a trailer.
func talk(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Trailer", "Grpc-Status")
	w.Header().Set("Content-Type", "application/grpc")
	control := http.NewResponseController(w)
	_ = control.EnableFullDuplex()
	_ = control.Flush()
	buf := make([]byte, 1024)
	for {
		n, err := r.Body.Read(buf)
		if n > 0 {
			fmt.Fprintf(w, "re: %s", buf[:n])
			_ = control.Flush()
		}
		if err != nil {
			break
		}
	}
	w.Header().Set("Grpc-Status", "0")
}

// echoMessage answers a gRPC call with its own message.
func echoMessage(w http.ResponseWriter, r *http.Request) {
	message, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Trailer", "Grpc-Status")
	w.Header().Set("Content-Type", "application/grpc")
	_, _ = w.Write(message)
	w.Header().Set("Grpc-Status", "0")
}

// dockerDaemon says its version.
func dockerDaemon(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Api-Version", "1.41")
	if strings.HasSuffix(r.URL.Path, "/version") {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"Version":"26.0.0-peer","ApiVersion":"1.41","MinAPIVersion":"1.24"}`)
	}
}

// gitServer serves one repository by git's own protocol, for reading and writing.
func gitServer(t *testing.T) http.Handler {
	t.Helper()
	core, err := exec.Command("git", "--exec-path").Output()
	if err != nil {
		return http.NotFoundHandler() // the tests that need it are skipped
	}
	root := openTempDir(t)
	makeRepository(t, root)
	backend := &cgi.Handler{
		Path: filepath.Join(strings.TrimSpace(string(core)), "git-http-backend"), Root: "/git",
		Env: []string{"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*"},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body) // CGI knows no chunks
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		r.Body, r.ContentLength, r.TransferEncoding = io.NopCloser(bytes.NewReader(body)), int64(len(body)), nil
		backend.ServeHTTP(w, r)
	})
}

// makeRepository makes root/repo.git with one commit whose file holds some data.
func makeRepository(t *testing.T, root string) {
	t.Helper()
	script := `git init -q -b main w && cd w && echo cloned > f && head -c 300000 /dev/urandom > data && git add . && git -c user.name=a -c user.email=a@b commit -qm one &&
		cd .. && git clone -q --bare w repo.git && git -C repo.git config http.receivepack true`
	cmd := exec.Command("bash", "-c", script)
	cmd.Dir = root
	cmd.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + root, "GIT_CONFIG_NOSYSTEM=1"}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("making a repository: %v\n%s", err, out)
	}
}

// npmRegistry has one package, "left".
func npmRegistry(base string) http.Handler {
	tarball := tarGz(map[string]string{
		"package/package.json": `{"name":"left","version":"1.2.3","main":"index.js"}`, "package/index.js": `module.exports = "left works"`,
	})
	sha1sum, sha512sum := sha1.Sum(tarball), sha512.Sum512(tarball)
	doc := map[string]any{
		"name": "left", "dist-tags": map[string]string{"latest": "1.2.3"},
		"versions": map[string]any{"1.2.3": map[string]any{"name": "left", "version": "1.2.3", "main": "index.js", "dist": map[string]string{
			"tarball": base + "/npm/left/-/left-1.2.3.tgz", "shasum": hex.EncodeToString(sha1sum[:]), "integrity": "sha512-" + base64.StdEncoding.EncodeToString(sha512sum[:]),
		}}},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/npm/left":
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(doc)
		case "/npm/left/-/left-1.2.3.tgz":
			_, _ = w.Write(tarball)
		default:
			http.NotFound(w, r)
		}
	})
}

func tarGz(files map[string]string) []byte {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	w := tar.NewWriter(z)
	for name, text := range files {
		_ = w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(text))})
		_, _ = io.WriteString(w, text)
	}
	_ = w.Close()
	_ = z.Close()
	return out.Bytes()
}

func zipOf(files map[string]string) []byte {
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	for name, text := range files {
		if w, err := z.Create(name); err == nil {
			_, _ = io.WriteString(w, text)
		}
	}
	_ = z.Close()
	return out.Bytes()
}

// pythonIndex has one package, "peerpkg".
func pythonIndex() http.Handler {
	const file = "peerpkg-1.0-py3-none-any.whl"
	wheel := zipOf(map[string]string{
		"peerpkg.py":                     `text = "peerpkg works"`,
		"peerpkg-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: peerpkg\nVersion: 1.0\n",
		"peerpkg-1.0.dist-info/WHEEL":    "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
		"peerpkg-1.0.dist-info/RECORD":   "peerpkg.py,,\npeerpkg-1.0.dist-info/METADATA,,\npeerpkg-1.0.dist-info/WHEEL,,\npeerpkg-1.0.dist-info/RECORD,,\n",
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/pip/peerpkg/":
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprintf(w, `<!DOCTYPE html><html><body><a href="/pip/files/%s">%s</a></body></html>`, file, file)
		case "/pip/files/" + file:
			_, _ = w.Write(wheel)
		default:
			http.NotFound(w, r)
		}
	})
}

// crateRegistry has one crate, "peercrate".
func crateRegistry() http.Handler {
	crate := tarGz(map[string]string{
		"peercrate-1.0.0/Cargo.toml": "[package]\nname = \"peercrate\"\nversion = \"1.0.0\"\nedition = \"2021\"\n", "peercrate-1.0.0/src/lib.rs": "// peercrate works\n",
	})
	sum := sha256.Sum256(crate)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/cargo/config.json":
			scheme := "http"
			if r.TLS != nil {
				scheme = "https"
			}
			fmt.Fprintf(w, `{"dl":"%s://%s/cargo/dl"}`, scheme, r.Host)
		case "/cargo/pe/er/peercrate":
			fmt.Fprintf(w, `{"name":"peercrate","vers":"1.0.0","deps":[],"cksum":"%x","features":{},"yanked":false}`+"\n", sum)
		case "/cargo/dl/peercrate/1.0.0/download":
			_, _ = w.Write(crate)
		default:
			http.NotFound(w, r)
		}
	})
}

// moduleProxy has one module, example.test/mod at v1.0.0.
func moduleProxy() http.Handler {
	const mod = "module example.test/mod\n\ngo 1.20\n"
	archive := zipOf(map[string]string{"example.test/mod@v1.0.0/go.mod": mod, "example.test/mod@v1.0.0/mod.go": "package mod\n\nconst Text = \"mod works\"\n"})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch strings.TrimPrefix(r.URL.Path, "/go/example.test/mod/@v/") {
		case "list":
			fmt.Fprintln(w, "v1.0.0")
		case "v1.0.0.info":
			fmt.Fprintln(w, `{"Version":"v1.0.0","Time":"2024-01-01T00:00:00Z"}`)
		case "v1.0.0.mod":
			_, _ = io.WriteString(w, mod)
		case "v1.0.0.zip":
			_, _ = w.Write(archive)
		default:
			http.NotFound(w, r)
		}
	})
}
