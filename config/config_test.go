package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// settings builds a minimal file with extra members of the root, of network
// and of filesystem.
func settings(root, network, filesystem string) string {
	return fmt.Sprintf(`{"network":{"allowedDomains":["a.b"],"deniedDomains":[]%s},"filesystem":{"denyRead":[],"allowWrite":[],"denyWrite":[]%s}%s}`, network, filesystem, root)
}

func withRoot(s string) string       { return settings(","+s, "", "") }
func withNetwork(s string) string    { return settings("", ","+s, "") }
func withFilesystem(s string) string { return settings("", "", ","+s) }

// list replaces one list of the file system.
func list(name, entries string) string {
	lists := map[string]string{"denyRead": "[]", "allowWrite": "[]", "denyWrite": "[]"}
	lists[name] = entries
	return fmt.Sprintf(`{"network":{"allowedDomains":[],"deniedDomains":[]},"filesystem":{"denyRead":%s,"allowWrite":%s,"denyWrite":%s}}`, lists["denyRead"], lists["allowWrite"], lists["denyWrite"])
}

func domains(allow, deny string) string {
	return fmt.Sprintf(`{"network":{"allowedDomains":%s,"deniedDomains":%s},"filesystem":{"denyRead":[],"allowWrite":[],"denyWrite":[]}}`, allow, deny)
}

func TestAccepted(t *testing.T) {
	for name, text := range map[string]string{
		"config 15 (by decision): comments": "// c\n" + settings("", "", "") + "/* end */",
		"trailing comma":                    `{"network":{"allowedDomains":[],"deniedDomains":[],},"filesystem":{"denyRead":[],"allowWrite":[],"denyWrite":[],},}`,
		"config 20":                         withFilesystem(`"allowRead":[]`),
		"config 22 one":                     withRoot(`"mandatoryDenySearchDepth":1`),
		"config 22 ten":                     withRoot(`"mandatoryDenySearchDepth":10`),
		"config 22 three point zero":        withRoot(`"mandatoryDenySearchDepth":3.0`),
		"config 22 exponent":                withRoot(`"mandatoryDenySearchDepth":3e0`),
		"config 23":                         withRoot(`"futureOption":true`),
		"config 30":                         withRoot(`"windows":{"proxyPortRange":[1,65]}`),
		"config 34":                         domains(`["localhost","localhost:80","1.2.3.4","a.b:443","*.a.b:1","EXAMPLE.com","[::1]","[2001:db8::1]:443"]`, `[]`),
		"config 35":                         domains(`[]`, `["*","*:22"]`),
		"config 42 unused reason":           withNetwork(`"deniedDomainReasons":{"nowhere":"x"}`),
		"config 43 wildcard":                withNetwork(`"tlsTerminate":{"excludeDomains":["*.x.y"]}`),
		"config 44":                         withNetwork(`"deniedResolvedAddresses":["fc00::/7","::ffff:10.0.0.0/104"]`),
		"config 45":                         withNetwork(`"allowMachLookup":["com.x.*","*"]`),
		"config 48 relative":                list("denyWrite", `["b/*/"]`),
		"config 48 allow":                   list("allowWrite", `["/data/*/"]`),
		"config 48 no set":                  list("denyRead", `["/d/["]`),
		"config 49":                         strings.Replace(list("denyRead", `["/g?/"]`), `"denyWrite":[]`, `"denyWrite":[],"disabled":true`, 1),
		"config 68 plaintext":               withRoot(`"credentials":{"envVars":[{"name":"A","mode":"mask"}],"allowPlaintextInject":true}`),
		"config 70 deny":                    withRoot(`"credentials":{"envVars":[{"name":"A","mode":"deny","injectHosts":[]}]}`),
		"config 72 group":                   withRoot(`"credentials":{"files":[{"path":"/x","mode":"deny","extract":"t=(\\S+)"}]}`),
		"config 74 deny":                    withRoot(`"credentials":{"files":[{"path":"/x/","mode":"deny"}]}`),
		"parent host and port":              withNetwork(`"parentProxy":{"http":"proxy.corp:3128","noProxy":""}`),
	} {
		if _, _, err := Parse([]byte(text)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRefused(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"config 5":                     {"\xef\xbb\xbf" + settings("", "", ""), "(root): not valid JSON"},
		"config 16":                    {list("denyRead", "[\"/x\xff\"]"), "UTF-8"},
		"config 17":                    {`{}`, "network: is required; filesystem: is required"},
		"config 18 list":               {`[]`, "(root): must be an object, is a list"},
		"config 18 null":               {`null`, "(root): must not be null"},
		"config 18 text":               {`"x"`, "(root)"},
		"config 19":                    {`{"network":{},"filesystem":{}}`, "network.allowedDomains: is required; network.deniedDomains: is required; filesystem.denyRead: is required; filesystem.allowWrite: is required; filesystem.denyWrite: is required"},
		"config 20":                    {withFilesystem(`"allowRead":null`), "filesystem.allowRead: must not be null"},
		"config 21 null":               {withNetwork(`"strictAllowlist":null`), "network.strictAllowlist"},
		"config 21 text":               {withRoot(`"allowPty":"yes"`), "allowPty: must be true or false, is a text"},
		"config 22 zero":               {withRoot(`"mandatoryDenySearchDepth":0`), "must be 1 to 10"},
		"config 22 eleven":             {withRoot(`"mandatoryDenySearchDepth":11`), "must be 1 to 10"},
		"config 22 fraction":           {withRoot(`"mandatoryDenySearchDepth":1.5`), "whole number"},
		"number too large":             {withRoot(`"mandatoryDenySearchDepth":1e99999999`), "whole number"},
		"config 24 credentials":        {withRoot(`"credentials":{"injectHosts":[]}`), "credentials.injectHosts: unknown key"},
		"config 24 sigv4":              {withRoot(`"credentials":{"sigv4":{"x":"deny"}}`), "credentials.sigv4.x: unknown key"},
		"config 24 pair":               {withRoot(`"credentials":{"awsPairs":[{"accessKeyIdVar":"A","secretAccessKeyVar":"B","z":1}]}`), "awsPairs.0.z"},
		"config 25":                    {`{"Network":{},"filesystem":{"denyRead":[],"allowWrite":[],"denyWrite":[]}}`, "network: is required"},
		"config 26":                    {`{"network":{},"network":{}}`, `"network" appears twice`},
		"config 27":                    {withNetwork(`"filterRequest":null`), "network.filterRequest"},
		"config 28 relative":           {withRoot(`"bwrapPath":"bwrap"`), "bwrapPath: must be an absolute path"},
		"config 28 empty":              {withRoot(`"socatPath":""`), "socatPath: must not be empty"},
		"config 29":                    {withRoot(`"ripgrep":{}`), "ripgrep.command: is required"},
		"config 30 zero":               {withRoot(`"windows":{"proxyPortRange":[0,5]}`), "proxyPortRange"},
		"config 30 order":              {withRoot(`"windows":{"proxyPortRange":[5,4]}`), "proxyPortRange"},
		"config 30 wide":               {withRoot(`"windows":{"proxyPortRange":[1,66]}`), "proxyPortRange"},
		"config 30 high":               {withRoot(`"windows":{"proxyPortRange":[65530,65536]}`), "proxyPortRange"},
		"config 31":                    {withRoot(`"windows":{"sandboxUser":"abcdefghijklmnopqrstu"}`), "sandboxUser: must be 1 to 20 characters"},
		"config 32 zero":               {withNetwork(`"httpProxyPort":0`), "httpProxyPort"},
		"config 32 high":               {withNetwork(`"httpProxyPort":65536`), "httpProxyPort"},
		"config 33 star":               {domains(`["*"]`, `[]`), "network.allowedDomains.0"},
		"config 33 scheme":             {domains(`["a.b","https://a.b"]`, `[]`), "network.allowedDomains.1"},
		"config 35":                    {domains(`[]`, `["*.com"]`), "network.deniedDomains.0"},
		"config 42 empty reason":       {withNetwork(`"deniedDomainReasons":{"a.b":""}`), "deniedDomainReasons.a.b"},
		"config 43":                    {withNetwork(`"tlsTerminate":{"excludeDomains":["a.b:443"]}`), "excludeDomains.0"},
		"config 44":                    {withNetwork(`"deniedResolvedAddresses":["10.0.0.0/33"]`), "deniedResolvedAddresses.0"},
		"config 45":                    {withNetwork(`"allowMachLookup":["a*b"]`), "allowMachLookup.0"},
		"config 46 empty":              {list("denyRead", `[""]`), "filesystem.denyRead.0: must not be empty"},
		"config 46 no mark":            {list("denyRead", `[{"path":"/x"}]`), "filesystem.denyRead.0"},
		"config 46 false mark":         {list("denyRead", `[{"path":"/x","literal":false}]`), "filesystem.denyRead.0"},
		"config 46 more keys":          {list("denyRead", `[{"path":"/x","literal":true,"z":1}]`), "filesystem.denyRead.0"},
		"config 46 number":             {list("denyRead", `[7]`), "filesystem.denyRead.0"},
		"config 47 rooted":             {list("denyRead", `["/data/*/"]`), `write "/data/*"`},
		"config 47 home":               {list("denyWrite", `["~/x*/"]`), "matches nothing"},
		"config 47 subtree":            {list("denyRead", `["/h/**/"]`), "matches nothing"},
		"config 47 bracket":            {list("denyRead", `["/e/]/"]`), "matches nothing"},
		"config 68":                    {withRoot(`"credentials":{"envVars":[{"name":"A","mode":"mask"}]}`), "needs network.tlsTerminate"},
		"config 69":                    {withRoot(`"credentials":{"envVars":[{"name":"A","mode":"deny","injectHosts":["evil.com"]}]}`), "not covered"},
		"config 70":                    {withRoot(`"credentials":{"allowPlaintextInject":true,"envVars":[{"name":"A","mode":"mask","injectHosts":[]}]}`), "injectHosts: must not be empty"},
		"config 71 no decode":          {withRoot(`"credentials":{"envVars":[{"name":"A","mode":"deny","maskClaims":["x"]}]}`), "requires decode"},
		"config 71 empty":              {withRoot(`"credentials":{"envVars":[{"name":"A","mode":"deny","decode":"jwt","maskClaims":[]}]}`), "maskClaims: must not be empty"},
		"config 72 no group":           {withRoot(`"credentials":{"files":[{"path":"/x","mode":"deny","extract":"abc"}]}`), "capturing group"},
		"config 72 bad":                {withRoot(`"credentials":{"files":[{"path":"/x","mode":"deny","extract":"a("}]}`), "does not compile"},
		"config 72 not capturing":      {withRoot(`"credentials":{"files":[{"path":"/x","mode":"deny","extract":"(?:x)"}]}`), "capturing group"},
		"extract with lookahead":       {withRoot(`"credentials":{"files":[{"path":"/x","mode":"deny","extract":"(a)(?=b)"}]}`), "lookahead"},
		"extract with a backreference": {withRoot(`"credentials":{"files":[{"path":"/x","mode":"deny","extract":"(a)\\1"}]}`), "backreference"},
		"config 73 digit":              {withRoot(`"credentials":{"envVars":[{"name":"1A","mode":"deny"}]}`), "envVars.0.name"},
		"config 73 empty":              {withRoot(`"credentials":{"envVars":[{"name":"","mode":"deny"}]}`), "envVars.0.name"},
		"config 74":                    {withRoot(`"credentials":{"allowPlaintextInject":true,"files":[{"path":"/x/","mode":"mask"}]}`), "only a single file"},
		"config 75 twice":              {withRoot(`"credentials":{"allowPlaintextInject":true,"envVars":[{"name":"A","mode":"mask"}],"awsPairs":[{"accessKeyIdVar":"A","secretAccessKeyVar":"A"}]}`), "used twice"},
		"config 75 not masked":         {withRoot(`"credentials":{"awsPairs":[{"accessKeyIdVar":"A","secretAccessKeyVar":"B"}]}`), `with mode "mask"`},
		"config 76":                    {withNetwork(`"tlsTerminate":{},"mitmProxy":{"socketPath":"/s","domains":["a.b"]}`), "mutually exclusive"},
		"config 77":                    {withNetwork(`"tlsTerminate":{"caCertPath":"/c"}`), "given together"},
		"config 78 no URL":             {withNetwork(`"parentProxy":{"http":"foo"}`), "parentProxy.http"},
		"config 78 scheme":             {withNetwork(`"parentProxy":{"https":"socks5://h:1"}`), `"socks5" is not supported`},
		"bad enum":                     {withNetwork(`"ambiguousRequestTarget":"maybe"`), "one of refuse, asSpelled, normalize"},
		"bad uuid":                     {withRoot(`"windows":{"sublayerGuid":"x"}`), "not a UUID"},
		"mitm without domains":         {withNetwork(`"mitmProxy":{"socketPath":"/s","domains":[]}`), "mitmProxy.domains: must not be empty"},
		"too deep":                     {strings.Repeat("[", 100) + strings.Repeat("]", 100), "nested too deeply"},
		"two values":                   {settings("", "", "") + "{}", "not valid JSON"},
	} {
		_, _, err := Parse([]byte(c.text))
		var invalid *Error
		if !errors.As(err, &invalid) || !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: accepted or wrong error: %v", name, err)
			continue
		}
		if !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v\nwants %q", name, err, c.want)
		}
	}
}

// config 23: unknown keys are reported with the key that was most likely meant.
func TestUnknownKeys(t *testing.T) {
	_, unknown, err := Parse([]byte(`{"network":{"allowedDomains":[],"deniedDomains":[],"strictAllowList":true},"filesystem":{"denyRead":[],"allowWrite":[],"denyWrite":[],"denyRaed":["x"]},"zzz":1}`))
	if err != nil {
		t.Fatal(err)
	}
	want := []UnknownKey{{"network.strictAllowList", "strictAllowlist"}, {"filesystem.denyRaed", "denyRead"}, {"zzz", ""}}
	if diff := cmp.Diff(want, unknown); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return p
	}
	for name, c := range map[string]struct {
		path string
		want error
		text string
	}{
		"config 11 missing":    {filepath.Join(dir, "none"), ErrMissing, "none"},
		"config 2 empty":       {write("empty", ""), ErrEmpty, "empty"},
		"config 3 white space": {write("blank", " \n\t"), ErrEmpty, "blank"},
		"config 4 bom":         {write("bom", "\xef\xbb\xbf"), ErrEmpty, "bom"},
		"config 7 directory":   {dir, nil, "EISDIR"},
		"config 6 not a dir":   {filepath.Join(write("file", "x"), "sub"), nil, "ENOTDIR"},
		"invalid":              {write("bad", "{"), ErrInvalid, "bad"},
	} {
		_, _, err := Load(c.path)
		if err == nil || c.want != nil && !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if os.Getuid() != 0 {
		p := write("closed", settings("", "", ""))
		if err := os.Chmod(p, 0); err != nil {
			t.Fatal(err)
		}
		if _, _, err := Load(p); !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "EACCES") {
			t.Errorf("config 8: %v", err)
		}
	}
	if c, _, err := Load(write("good", settings("", "", ""))); err != nil || c.SearchDepth() != 3 {
		t.Errorf("a good file: %v", err)
	}
}

// config 9, 10: the home directory is never a relative path.
func TestHome(t *testing.T) {
	env := func(v string, ok bool) func(string) (string, bool) {
		return func(string) (string, bool) { return v, ok }
	}
	if h, err := Home(env("/nonexistent", true)); err != nil || h != "/nonexistent" {
		t.Errorf("%q, %v", h, err)
	}
	for _, v := range []string{"", ".", "x/y"} {
		h, err := Home(env(v, true))
		if err == nil && !filepath.IsAbs(h) {
			t.Errorf("HOME=%q gives %q", v, h)
		}
	}
}

func TestExamples(t *testing.T) {
	files, err := filepath.Glob("testdata/examples/*.json")
	if err != nil || len(files) == 0 {
		t.Fatal("no examples", err)
	}
	for _, f := range files {
		c, unknown, err := Load(f)
		if err != nil || len(unknown) > 0 {
			t.Errorf("%s: %v, unknown %v", f, err, unknown)
			continue
		}
		if err := c.Validate(); err != nil {
			t.Errorf("%s: parsed, but not valid: %v", f, err)
		}
		if diff := cmp.Diff(c, c.Clone()); diff != "" {
			t.Errorf("%s: the copy differs:\n%s", f, diff)
		}
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		tree, err := parseTree(data)
		if err != nil {
			t.Fatal(err)
		}
		var s map[string]any
		if err := json.Unmarshal(Schema(), &s); err != nil {
			t.Fatal(err)
		}
		if problem := checkSchema(s, tree, "(root)"); problem != "" {
			t.Errorf("%s does not fit the schema: %s", f, problem)
		}
	}
}

// checkSchema applies the keywords that Schema emits.
func checkSchema(s map[string]any, n *node, at string) string {
	if choices, ok := s["anyOf"].([]any); ok {
		for _, alternative := range choices {
			if checkSchema(alternative.(map[string]any), n, at) == "" {
				return ""
			}
		}
		return at + ": no alternative fits"
	}
	kinds := map[string]nodeKind{"object": kindObject, "array": kindArray, "string": kindString, "boolean": kindBool, "integer": kindNumber}
	if t, ok := s["type"].(string); ok && kinds[t] != n.kind {
		return at + ": is not of type " + t
	}
	switch n.kind {
	case kindObject:
		properties, _ := s["properties"].(map[string]any)
		for i, key := range n.keys {
			sub, ok := properties[key].(map[string]any)
			if !ok {
				if sub, ok = s["additionalProperties"].(map[string]any); !ok {
					return at + ": unknown key " + key
				}
			}
			if problem := checkSchema(sub, n.values[i], at+"."+key); problem != "" {
				return problem
			}
		}
	case kindArray:
		for i, v := range n.values {
			if problem := checkSchema(s["items"].(map[string]any), v, fmt.Sprint(at, ".", i)); problem != "" {
				return problem
			}
		}
	case kindString:
		if min, ok := s["minLength"].(float64); ok && len(n.text) < int(min) {
			return at + ": too short"
		}
		if enum, ok := s["enum"].([]any); ok && !strings.Contains(fmt.Sprint(enum), n.text) {
			return at + ": not in the list"
		}
	}
	return ""
}

// The example with every key keeps the schema and the types in step.
func TestExampleNamesEveryKey(t *testing.T) {
	data, err := os.ReadFile("testdata/examples/everything.json")
	if err != nil {
		t.Fatal(err)
	}
	agent, err := os.ReadFile("testdata/examples/agent.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range Keys() {
		last := key[strings.LastIndexByte(key, '.')+1:]
		if quoted := `"` + last + `"`; last != "*" && !strings.Contains(string(data)+string(agent), quoted) && !unusedInExamples[last] {
			t.Errorf("no example has the key %s", key)
		}
	}
}

// mitmProxy excludes tlsTerminate, which the examples have.
var unusedInExamples = map[string]bool{"mitmProxy": true, "socketPath": true, "domains": true, "sessionTokenVar": true}

func TestValidateProgrammatic(t *testing.T) {
	c := Default()
	if err := c.Validate(); err != nil {
		t.Errorf("the defaults: %v", err)
	}
	if err := (&Config{}).Validate(); err != nil {
		t.Errorf("empty lists are the zero value: %v", err)
	}
	c.Network.AllowedDomains = []string{"*.com"}
	c.Filesystem.DenyRead = []PathEntry{{}}
	c.MandatoryDenySearchDepth = 99
	err := c.Validate()
	for _, want := range []string{"network.allowedDomains.0", "filesystem.denyRead.0", "mandatoryDenySearchDepth"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not name %s", err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(settings("", "", ""))
	f.Add(list("denyRead", `["~/x",{"path":"a","literal":true}]`))
	f.Add(domains(`["a.b:443","*.c.d"]`, `["*"]`))
	f.Fuzz(func(t *testing.T, text string) {
		c, _, err := Parse([]byte(text))
		if err != nil {
			return
		}
		if err := c.Validate(); err != nil {
			t.Fatalf("parsed, but not valid: %v", err)
		}
		data, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		again, unknown, err := Parse(data)
		if err != nil || len(unknown) > 0 {
			t.Fatalf("its own JSON is refused: %v %v\n%s", err, unknown, data)
		}
		if diff := cmp.Diff(c, again); diff != "" {
			t.Errorf("changed on the way through JSON:\n%s", diff)
		}
	})
}
