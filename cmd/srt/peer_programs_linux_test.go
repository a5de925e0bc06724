package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/net/proxy"
)

// peerPrograms are the programs and what they do. $WEB and $TLS are the servers.
func peerPrograms() []peer {
	return []peer{
		{name: "curl", needs: []string{"curl"}, script: `
			curl -sS $WEB/hello; curl -sS --http1.0 -o /dev/null -w "%{http_code}\n" $WEB/hello; curl -sS --cacert ca.pem --http1.1 $TLS/hello; curl -sS --cacert ca.pem --http2 $TLS/hello
			head -c 3000000 /dev/zero > big; curl -sS -T big $WEB/sum; curl -sS --cacert ca.pem -T big $TLS/sum; curl -sS -H "Expect: 100-continue" --data-binary @big $WEB/sum
			curl -sS --cacert ca.pem --parallel --parallel-max 20 $(for i in $(seq 40); do echo $TLS/hello; done) | sort | uniq -c`,
			want: []string{"hello over HTTP/1.1\n200\nhello over HTTP/1.1\nhello over HTTP/2.0\n", "3000000 bytes, <nil>\n3000000 bytes, <nil>\n3000000 bytes, <nil>\n", "40 hello over HTTP/2.0"}},
		{name: "curl by each variable", only: "proxies", needs: []string{"curl"}, script: `
			all="$HTTP_PROXY $HTTPS_PROXY $ALL_PROXY $FTP_PROXY"
			for p in $all; do curl -sS -x $p $WEB/hello; curl -sS -x $p --cacert ca.pem $TLS/hello; done | sort | uniq -c
			curl -sS --noproxy '*' $WEB/hello || echo no way around`,
			want: []string{"4 hello over HTTP/1.1\n", "4 hello over HTTP/2.0\n", "no way around"}}, // network 135
		{name: "curl resolving itself", only: "transparent", needs: []string{"curl"}, script: `curl -sS -x socks5://localhost:1080 $WEB/hello; curl -sS -x socks5://localhost:1080 --cacert ca.pem $TLS/hello`,
			want: []string{"hello over HTTP/1.1\nhello over HTTP/2.0\n"}},
		{name: "curl refused", only: "proxies", needs: []string{"curl"}, script: `
			curl -sS https://off.test/ 2>&1; curl -sS http://off.test/; curl -sS http://denied.test:22/`,
			want: []string{"CONNECT tunnel failed, response 403", "Connection blocked by network allowlist\nhost is not on the allow list\n", "use an https:// remote"}}, // network 136
		{name: "wget", needs: []string{"wget"}, script: `wget -qO- $WEB/hello; wget -qO- --ca-certificate=ca.pem $TLS/hello`, want: []string{"hello over HTTP/1.1\nhello over HTTP/1.1\n"}},
		{name: "git over http and https", needs: []string{"git"}, script: `
			export GIT_SSL_CAINFO=$PWD/ca.pem GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
			for from in $WEB $TLS; do git clone -q $from/git/repo.git c && cat c/f && (cd c && git fetch -q && head -c 2000000 /dev/urandom > more && git add . && git commit -qm more && git push -q origin HEAD:refs/heads/b$RANDOM$RANDOM$RANDOM && echo pushed); rm -rf c; done`,
			want: []string{"cloned\npushed\ncloned\npushed\n"}},
		{name: "npm", slow: true, needs: []string{"npm", "node"}, script: `
			export npm_config_cache=$PWD/.npm npm_config_update_notifier=false npm_config_audit=false npm_config_fund=false npm_config_fetch_retries=0
			echo '{"name":"a","version":"1.0.0"}' > package.json; npm install --registry $WEB/npm/ left >&2; node -p 'require("left")'
			rm -rf node_modules package-lock.json .npm; npm_config_cafile=ca.pem npm install --registry $TLS/npm/ left >&2; node -p 'require("left")'`,
			want: []string{"left works\nleft works\n"}},
		{name: "pip", slow: true, needs: []string{"python3"}, check: pipUsable, script: `
			for i in "$WEB" "$TLS"; do rm -rf out; python3 -m pip install -q --disable-pip-version-check --no-cache-dir --cert ca.pem --trusted-host peer.test --target out --index-url $i/pip/ peerpkg >&2
			PYTHONPATH=out python3 -c 'import peerpkg; print(peerpkg.text)'; done`,
			want: []string{"peerpkg works\npeerpkg works\n"}},
		{name: "go", needs: []string{"go"}, script: `
			export GOPROXY=$WEB/go GONOSUMDB=* GONOSUMCHECK=1 GOFLAGS=-mod=mod GOTOOLCHAIN=local GOPATH=$PWD/gopath GOCACHE=$PWD/gocache
			for p in $WEB $TLS; do rm -rf m; mkdir m; cd m; go mod init -q x 2>/dev/null || go mod init x; GOPROXY=$p/go SSL_CERT_FILE=../ca.pem go get example.test/mod@v1.0.0 >&2; go list -m example.test/mod; cd ..; chmod -R u+w gopath; rm -rf gopath; done`,
			want: []string{"example.test/mod v1.0.0\nexample.test/mod v1.0.0\n"}},
		{name: "python", needs: []string{"python3"}, script: `cat > c.py <<'X'` + pythonClient + "\nX\npython3 c.py", want: []string{"urllib hello over HTTP/1.1", "urllib TLS hello over HTTP/1.1"}},
		{name: "python requests", needs: []string{"python3"}, check: pipUsable, script: `
			python3 -c 'import os; from pip._vendor import requests; print(requests.get(os.environ["WEB"]+"/hello").text); print(requests.get(os.environ["TLS"]+"/hello", verify="ca.pem").text)'`,
			want: []string{"hello over HTTP/1.1\n\nhello over HTTP/1.1\n"}},
		{name: "python sockets", only: "transparent", needs: []string{"python3"}, script: `
			python3 -c 'import os, socket; h, p = os.environ["PLAIN"].split(":"); s = socket.create_connection((h, int(p))); s.sendall(b"GET /hello HTTP/1.0\r\n\r\n"); print(s.makefile().read())'`,
			want: []string{"hello over HTTP/1.0"}},
		{name: "node", only: "transparent", needs: []string{"node"}, script: `cat > c.mjs <<'X'` + nodeClient + "\nX\nNODE_EXTRA_CA_CERTS=ca.pem node c.mjs", want: []string{"fetch hello over HTTP/1.1", "fetch TLS hello over HTTP/1.1", "http2 hello over HTTP/2.0", "websocket 101 echo"}},
		{name: "node through a proxy", only: "proxies", needs: []string{"node"}, script: `cat > c.mjs <<'X'` + nodeProxyClient + "\nX\nNODE_EXTRA_CA_CERTS=ca.pem node c.mjs", want: []string{"CONNECT websocket 101 echo", "absolute websocket 101 echo"}},
		{name: "java", slow: true, needs: []string{"java", "javac"}, script: `cat > C.java <<'X'` + javaClient + "\nX\njava -XX:TieredStopAtLevel=1 C.java",
			want: []string{"HttpClient hello over HTTP/1.1", "HttpClient TLS hello over HTTP/2.0", "HttpURLConnection hello over HTTP/1.1", "HttpURLConnection TLS hello over HTTP/1.1"}},
		{name: "maven", slow: true, needs: []string{"mvn"}, script: `
			echo "<settings><mirrors><mirror><id>m</id><mirrorOf>*</mirrorOf><url>$WEB/maven</url></mirror></mirrors></settings>" > settings.xml
			echo '<project><modelVersion>4.0.0</modelVersion><parent><groupId>example</groupId><artifactId>parent</artifactId><version>1</version></parent><artifactId>b</artifactId><packaging>pom</packaging></project>' > pom.xml
			mvn -B -s settings.xml -Dmaven.repo.local=$PWD/repo validate`,
			want: []string{"BUILD SUCCESS"}},
		{name: "gradle", slow: true, needs: []string{"gradle"}, script: `
			echo "repositories { maven { url '$WEB/maven' } }
			configurations { c }
			dependencies { c 'example:parent:1@pom' }
			task fetch { doLast { configurations.c.each { println 'fetched ' + it.name } } }" > build.gradle
			GRADLE_OPTS=-Djava.io.tmpdir=$TMPDIR gradle --no-daemon -q -g "$PWD/home" fetch`,
			want: []string{"fetched parent-1.pom\n"}},
		{name: "cargo", needs: []string{"cargo"}, check: cargoUsable, script: `
			mkdir -p src .cargo; echo 'fn main() {}' > src/main.rs; printf '[package]\nname = "c"\nversion = "0.1.0"\nedition = "2021"\n[dependencies]\npeercrate = "1"\n' > Cargo.toml
			for from in $WEB $TLS; do rm -rf Cargo.lock home; printf '[source.crates-io]\nreplace-with = "x"\n[source.x]\nregistry = "sparse+'$from'/cargo/"\n[http]\ncainfo = "ca.pem"\n' > .cargo/config.toml
			CARGO_HOME=$PWD/home cargo fetch >&2 && cat home/registry/src/*/peercrate-1.0.0/src/lib.rs; done`,
			want: []string{"// peercrate works\n// peercrate works\n"}},
		{name: "HTTP/2 stream", script: `$PEER stream $TLS ca.pem; $PEER stream $WEB ca.pem`, want: []string{"re: one, re: two, grpc-status 0, HTTP/2.0\nre: one, re: two, grpc-status 0, HTTP/2.0\n"}},
		{name: "gRPC", slow: true, needs: []string{"python3"}, check: grpcUsable, script: `cat > g.py <<'X'` + grpcClient + "\nX\npython3 g.py", want: []string{"gRPC hello\ngRPC TLS hello\n"}},
		{name: "variables", only: "proxies", script: `env | grep -i '_proxy\|^CLOUDSDK\|^GIT_SSH\|^JAVA_TOOL\|^SANDBOX\|^GIT_CONFIG_P' | sed "s|ProxyCommand=.*|ProxyCommand=SRT|; s|$TMPDIR|TMPDIR|" | LC_ALL=C sort`, want: []string{peerVariables}}, // network 131
		{name: "JVM properties", only: "proxies", slow: true, needs: []string{"java", "javac"}, script: `cat > S.java <<'X'` + selectorClient + `
X
			java -XX:TieredStopAtLevel=1 S.java; java -Dhttps.proxyHost=other -XX:TieredStopAtLevel=1 S.java`, // network 139
			want: []string{"http localhost:3128\nhttps localhost:3128\n127.0.0.1 direct\n10.0.0.1 localhost:3128\nhttp localhost:3128\nhttps other:3128\n"}},
		{name: "docker", needs: []string{"docker"}, script: `
			export DOCKER_CONFIG=$PWD; docker -H tcp://$PLAIN/docker version --format '{{.Server.Version}}'`,
			want: []string{"26.0.0-peer\n"}},
		{name: "gcloud", slow: true, needs: []string{"gcloud"}, script: `
			export CLOUDSDK_CONFIG=$PWD/gc CLOUDSDK_CORE_DISABLE_PROMPTS=1 CLOUDSDK_AUTH_DISABLE_CREDENTIALS=true CLOUDSDK_API_ENDPOINT_OVERRIDES_CLOUDRESOURCEMANAGER=$WEB/gcloud/
			gcloud projects list --format='value(projectId)'`,
			want: []string{"peer-project\n"}},
		{name: "SOCKS library", only: "proxies", script: `$PEER socks $WEB`, want: []string{"hello over HTTP/1.1"}},
	}
}

const pythonClient = `
import os, ssl, urllib.request
print("urllib", urllib.request.urlopen(os.environ["WEB"] + "/hello").read().decode())
print("urllib TLS", urllib.request.urlopen(os.environ["TLS"] + "/hello", context=ssl.create_default_context(cafile="ca.pem")).read().decode())`

const grpcClient = `
import os, grpc
def say(channel): return channel.unary_unary("/peer.Echo/Say")(b"hello", timeout=60).decode()
print("gRPC", say(grpc.insecure_channel(os.environ["WEB"].split("//")[1])))
print("gRPC TLS", say(grpc.secure_channel(os.environ["TLS"].split("//")[1], grpc.ssl_channel_credentials(open("ca.pem", "rb").read()))))`

// peerVariables are all that programs are told by.
const peerVariables = `ALL_PROXY=http://localhost:3128
CLOUDSDK_PROXY_ADDRESS=localhost
CLOUDSDK_PROXY_PORT=3128
CLOUDSDK_PROXY_TYPE=http
DOCKER_HTTPS_PROXY=http://localhost:3128
DOCKER_HTTP_PROXY=http://localhost:3128
FTP_PROXY=socks5h://localhost:1080
GIT_SSH_COMMAND=ssh -o ControlMaster=no -o ControlPath=none -o ProxyCommand=SRT
GRPC_PROXY=http://localhost:3128
HTTPS_PROXY=http://localhost:3128
HTTP_PROXY=http://localhost:3128
JAVA_TOOL_OPTIONS=-Dhttp.proxyHost=localhost -Dhttp.proxyPort=3128 -Dhttps.proxyHost=localhost -Dhttps.proxyPort=3128 -Dhttp.nonProxyHosts=localhost|127.*|[::1] -Djava.io.tmpdir=TMPDIR
NO_PROXY=localhost,127.0.0.1,::1
RSYNC_PROXY=localhost:1080
SANDBOX_RUNTIME=1
all_proxy=http://localhost:3128
ftp_proxy=socks5h://localhost:1080
grpc_proxy=http://localhost:3128
http_proxy=http://localhost:3128
https_proxy=http://localhost:3128
no_proxy=localhost,127.0.0.1,::1
`

// selectorClient asks the JVM what sbt and most Java libraries ask it.
const selectorClient = `
import java.net.*;
class S {
  static void ask(String name, String uri) {
    Proxy p = ProxySelector.getDefault().select(URI.create(uri)).get(0);
    InetSocketAddress a = (InetSocketAddress) p.address();
    System.out.println(name + " " + (a == null ? "direct" : a.getHostString() + ":" + a.getPort()));
  }
  public static void main(String[] args) {
    ask("http", "http://repo.example/"); ask("https", "https://repo.example/"); ask("127.0.0.1", "http://127.0.0.1/"); ask("10.0.0.1", "http://10.0.0.1/");
  }
}`

const nodeClient = `
import http from 'http'; import http2 from 'http2';
const { WEB, TLS } = process.env;
console.log("fetch", (await (await fetch(WEB + "/hello")).text()).trim());
console.log("fetch TLS", (await (await fetch(TLS + "/hello")).text()).trim());
await new Promise((done, fail) => {
  const s = http2.connect(TLS); s.on("error", fail);
  const r = s.request({ ":path": "/hello" }); let text = ""; r.setEncoding("utf8");
  r.on("data", d => text += d); r.on("end", () => { console.log("http2", text.trim()); s.close(); done(); });
});
const r = http.request(WEB + "/ws", { headers: { Connection: "Upgrade", Upgrade: "websocket", Origin: WEB, "Sec-WebSocket-Version": 13, "Sec-WebSocket-Key": "MDEyMzQ1Njc4OTAxMjM0NQ==" } });
r.on("upgrade", (res, s) => {
  s.write(Buffer.from([0x81, 0x84, 0, 0, 0, 0, ...Buffer.from("echo")]));
  s.on("data", d => { console.log("websocket", res.statusCode, d.subarray(2).toString()); s.destroy(); });
});
r.end();`

const nodeProxyClient = `
import http from 'http';
const { WEB, PLAIN } = process.env, proxy = new URL(process.env.HTTP_PROXY);
const headers = { Host: PLAIN, Connection: "Upgrade", Upgrade: "websocket", Origin: WEB, "Sec-WebSocket-Version": 13, "Sec-WebSocket-Key": "MDEyMzQ1Njc4OTAxMjM0NQ==" };
const frame = Buffer.from([0x81, 0x84, 0, 0, 0, 0, ...Buffer.from("echo")]);
const upgrade = (name, options) => new Promise(done => {
  const r = http.request({ ...options, headers });
  r.on("upgrade", (res, s) => { s.write(frame); s.on("data", d => { console.log(name, res.statusCode, d.subarray(2).toString()); s.destroy(); done(); }); });
  r.end();
});
const c = http.request({ host: proxy.hostname, port: proxy.port, method: "CONNECT", path: PLAIN });
await new Promise(done => { c.on("connect", (res, socket) => upgrade("CONNECT websocket", { path: "/ws", createConnection: () => socket }).then(done)); c.end(); });
await upgrade("absolute websocket", { host: proxy.hostname, port: proxy.port, path: WEB + "/ws" });`

const javaClient = `
import java.io.*; import java.net.*; import java.net.http.*; import java.security.*; import java.security.cert.*; import javax.net.ssl.*;
class C {
  static String read(URLConnection c) throws Exception { return new String(c.getInputStream().readAllBytes()).trim(); }
  public static void main(String[] a) throws Exception {
    KeyStore ks = KeyStore.getInstance("PKCS12"); ks.load(null, null);
    try (InputStream in = new FileInputStream("ca.pem")) { ks.setCertificateEntry("ca", CertificateFactory.getInstance("X.509").generateCertificate(in)); }
    TrustManagerFactory tmf = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm()); tmf.init(ks);
    SSLContext ssl = SSLContext.getInstance("TLS"); ssl.init(null, tmf.getTrustManagers(), null);
    HttpsURLConnection.setDefaultSSLSocketFactory(ssl.getSocketFactory());
    String web = System.getenv("WEB"), tls = System.getenv("TLS");
    HttpClient c = HttpClient.newBuilder().sslContext(ssl).build();
    System.out.println("HttpClient " + c.send(HttpRequest.newBuilder(URI.create(web + "/hello")).build(), HttpResponse.BodyHandlers.ofString()).body().trim());
    System.out.println("HttpClient TLS " + c.send(HttpRequest.newBuilder(URI.create(tls + "/hello")).build(), HttpResponse.BodyHandlers.ofString()).body().trim());
    System.out.println("HttpURLConnection " + read(new URL(web + "/hello").openConnection()));
    System.out.println("HttpURLConnection TLS " + read(new URL(tls + "/hello").openConnection()));
  }
}`

// pipUsable tells why pip cannot be used.
func pipUsable(int) string { return pythonHas("pip") }

// grpcUsable tells why gRPC cannot be used.
func grpcUsable(int) string { return pythonHas("grpc") }

// cargoUsable tells why a user cannot use cargo: it often belongs to one, or knows
// no registry but git repositories, as before version 1.68.
func cargoUsable(uid int) string {
	find := exec.Command("env", "PATH="+peerPath(), "sh", "-c", "cargo --version && command -v cargo")
	out, err := find.Output()
	var minor int
	if _, scanErr := fmt.Sscanf(string(out), "cargo 1.%d", &minor); err != nil || scanErr != nil || minor < 68 {
		return fmt.Sprintf("cargo 1.68 is not installed (%q, %v)", out, err)
	}
	if uid == os.Getuid() {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	for dir := filepath.Dir(lines[len(lines)-1]); dir != "/"; dir = filepath.Dir(dir) {
		if info, err := os.Stat(dir); err != nil || info.Mode().Perm()&0o005 != 0o005 {
			return "cargo is installed for another user"
		}
	}
	return ""
}

// peerPath is where the peers' programs are looked for. The cargo of rustup is newer
// than what distributions have.
func peerPath() string { return cargoDir() + ":/usr/local/bin:/usr/bin:/bin:/usr/local/go/bin" }

// cargoDir is where cargo is, or a directory where nothing is.
func cargoDir() string {
	path, err := exec.LookPath("cargo")
	if err != nil {
		return "/nonexistent"
	}
	return filepath.Dir(path)
}

// rustupHome is where the toolchains are that rustup's cargo starts.
func rustupHome() string {
	if dir := os.Getenv("RUSTUP_HOME"); dir != "" {
		return dir
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "/nonexistent"
	}
	return filepath.Join(home, ".rustup")
}

// pythonHas tells why a module cannot be used by the interpreter that the
// sandboxes find.
func pythonHas(module string) string {
	cmd := exec.Command("python3", "-c", "import "+module)
	cmd.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin"}
	for _, dir := range []string{"/usr/local/bin", "/usr/bin", "/bin"} {
		if path := dir + "/python3"; fileExists(path) {
			cmd.Path, cmd.Err = path, nil
			break
		}
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Sprintf("python3 has no module %s: %v %s", module, err, out)
	}
	return ""
}

func fileExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// peerClient is the script command "peer KIND URL ...": clients that need a
// program of their own.
func peerClient() {
	var err error
	switch os.Args[1] {
	case "stream":
		err = streamClient(os.Args[2], os.Args[3])
	case "socks":
		err = socksClient(os.Args[2])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "peer:", err)
		os.Exit(1)
	}
}

// streamClient sends the second part of its request after it has read the answer
// to the first, which only HTTP/2 end to end can do.
func streamClient(base, authority string) error {
	text, err := os.ReadFile(authority)
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(text)
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true}
	if strings.HasPrefix(base, "http:") {
		transport.Protocols = new(http.Protocols)
		transport.Protocols.SetUnencryptedHTTP2(true)
		transport.Proxy, transport.DialContext = nil, dialTunnel
	}
	client := &http.Client{Transport: transport}
	pr, pw := io.Pipe()
	req, err := http.NewRequest(http.MethodPost, base+"/talk", pr)
	if err != nil {
		return err
	}
	go func() { _, _ = io.WriteString(pw, "one, ") }()
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	r := bufio.NewReader(res.Body)
	first, err := r.ReadString(' ')
	if err != nil {
		return err
	}
	second, err := r.ReadString(' ')
	if err != nil {
		return err
	}
	_, _ = io.WriteString(pw, "two, ")
	pw.Close()
	rest, err := io.ReadAll(r)
	fmt.Printf("%s%s%sgrpc-status %s, %s\n", first, second, rest, res.Trailer.Get("Grpc-Status"), res.Proto)
	return err
}

// dialTunnel connects as gRPC does: by CONNECT, whatever is spoken in the tunnel.
func dialTunnel(ctx context.Context, network, address string) (net.Conn, error) {
	at := os.Getenv("HTTPS_PROXY")
	if at == "" {
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, network, strings.TrimPrefix(at, "http://"))
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", address, address)
	r := bufio.NewReader(conn)
	res, err := http.ReadResponse(r, &http.Request{Method: http.MethodConnect})
	if err == nil && (res.StatusCode != http.StatusOK || r.Buffered() > 0) { // the client of HTTP/2 speaks first
		err = fmt.Errorf("the proxy answered %s", res.Status)
	}
	return conn, err
}

// socksClient uses a library for SOCKS, as database drivers do.
func socksClient(base string) error {
	u, err := url.Parse(os.Getenv("FTP_PROXY"))
	if err != nil {
		return err
	}
	d, err := proxy.SOCKS5("tcp", u.Host, nil, nil)
	if err != nil {
		return err
	}
	client := &http.Client{Transport: &http.Transport{DialContext: func(_ context.Context, network, address string) (net.Conn, error) { return d.Dial(network, address) }}}
	res, err := client.Get(base + "/hello")
	if err != nil {
		return err
	}
	_, err = io.Copy(os.Stdout, res.Body)
	return err
}
