package config

import (
	"encoding/json"
	"errors"
	"fmt"
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

// masked is a file with a masked variable that has one more member, and hosts
// that are excluded from TLS termination.
func masked(member, excluded string) string {
	return settings(fmt.Sprintf(`,"credentials":{"envVars":[{"name":"A","mode":"mask",%s}]}`, member), fmt.Sprintf(`,"tlsTerminate":{"excludeDomains":[%s]}`, excluded), "")
}

func TestAccepted(t *testing.T) {
	for name, text := range map[string]string{
		"config 15 (by decision): comments":                       "// c\n" + settings("", "", "") + "/* end */",
		"config 15 (by decision): a comment that ends the file":   settings("", "", "") + "// end",
		"config 15 (by decision): brackets in comments and texts": "/*" + strings.Repeat("[", 99) + "*///" + strings.Repeat("{", 99) + "\n" + list("denyWrite", `["`+strings.Repeat("[", 99)+`\"\\"]`),
		"trailing comma":             `{"network":{"allowedDomains":[],"deniedDomains":[],},"filesystem":{"denyRead":[],"allowWrite":[],"denyWrite":[],},}`,
		"config 20":                  withFilesystem(`"allowRead":[]`),
		"config 22 one":              withRoot(`"mandatoryDenySearchDepth":1`),
		"config 22 ten":              withRoot(`"mandatoryDenySearchDepth":10`),
		"config 22 three point zero": withRoot(`"mandatoryDenySearchDepth":3.0`),
		"config 22 exponent":         withRoot(`"mandatoryDenySearchDepth":3e0`),
		"config 23":                  withRoot(`"futureOption":true`),
		"config 23 in filesystem":    withFilesystem(`"futureOption":{"a":null}`),
		"config 22 small exponent":   withRoot(`"mandatoryDenySearchDepth":30e-1`),
		"allowNewRepositoryHooks":    withFilesystem(`"allowNewRepositoryHooks":true`),
		"config 28":                  withRoot(`"bwrapPath":"/b","socatPath":"/s"`),
		"config 31 at the limit":     withRoot(`"windows":{"sandboxUser":"abcdefghijklmnopqrst"}`),
		"config 32 limits":           withNetwork(`"httpProxyPort":1,"socksProxyPort":65535`),
		"a whole surrogate pair":     list("denyRead", `["/\ud83d\ude00","\\ud800"]`),
		"config 30":                  withRoot(`"windows":{"proxyPortRange":[1,65]}`),
		"config 34":                  domains(`["localhost","localhost:80","1.2.3.4","a.b:443","*.a.b:1","EXAMPLE.com","[::1]","[2001:db8::1]:443"]`, `[]`),
		"config 35":                  domains(`[]`, `["*","*:22"]`),
		"config 42 unused reason":    withNetwork(`"deniedDomainReasons":{"nowhere":"x"}`),
		"config 43 wildcard":         withNetwork(`"tlsTerminate":{"excludeDomains":["*.x.y"]}`),
		"config 44":                  withNetwork(`"deniedResolvedAddresses":["fc00::/7","::ffff:10.0.0.0/104"]`),
		"config 45":                  withNetwork(`"allowMachLookup":["com.x.*","*"]`),
		"config 48 relative":         list("denyWrite", `["b/*/"]`),
		"config 48 allow":            list("allowWrite", `["/data/*/"]`),
		"config 48 no set":           list("denyRead", `["/d/["]`),
		"config 49":                  strings.Replace(list("denyRead", `["/g?/"]`), `"denyWrite":[]`, `"denyWrite":[],"disabled":true`, 1),
		"config 68 plaintext":        withRoot(`"credentials":{"envVars":[{"name":"A","mode":"mask"}],"allowPlaintextInject":true}`),
		"config 69 covered":          strings.Replace(withRoot(`"credentials":{"envVars":[{"name":"A","mode":"deny","injectHosts":["api.github.com"]}]}`), `"a.b"`, `"*.github.com:443"`, 1),
		"config 70 deny":             withRoot(`"credentials":{"envVars":[{"name":"A","mode":"deny","injectHosts":[]}]}`),
		"config 72 group":            withRoot(`"credentials":{"files":[{"path":"/x","mode":"deny","extract":"t=(\\S+)"}]}`),
		"config 74 deny":             withRoot(`"credentials":{"files":[{"path":"/x/","mode":"deny"}]}`),
		"parent host and port":       withNetwork(`"parentProxy":{"http":"proxy.corp:3128","noProxy":""}`),
		"parent over SOCKS":          withNetwork(`"parentProxy":{"http":"socks5://h","https":"socks5h://u:p@h:1080"}`),
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
		"config 16 lone surrogate":     {list("denyRead", `["/x\ud800y"]`), "filesystem.denyRead.0: holds an escape for half a character"},
		"config 16 surrogate order":    {list("denyRead", `["\udc00\ud800"]`), "filesystem.denyRead.0"},
		"config 16 in a key":           {withRoot(`"ignoreViolations":{"\udfff":[]}`), "half a character"},
		"config 17":                    {`{}`, "network: is required; filesystem: is required"},
		"config 18 list":               {`[]`, "(root): must be an object, is a list"},
		"config 18 null":               {`null`, "(root): must be an object, is null"},
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
		"config 26":                    {`{"network":{},"network":{}}`, "network: is given more than once"},
		"config 26 escaped":            {withFilesystem(`"deny\u0052ead":[]`), "filesystem.denyRead: is given more than once"},
		"config 26 and more":           {withRoot(`"allowPty":true,"allowPty":1,"git":1`), "allowPty: is given more than once in one object; git: must be an object"},
		"config 27":                    {withNetwork(`"filterRequest":null`), "network.filterRequest"},
		"config 27 object":             {withNetwork(`"filterRequest":{}`), "network.filterRequest"},
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
		"config 32 socks":              {withNetwork(`"socksProxyPort":65536`), "socksProxyPort: must be 1 to 65535"},
		"config 32 text":               {withNetwork(`"httpProxyPort":"80"`), "must be a number, is a text"},
		"number beyond 2^53":           {withNetwork(`"httpProxyPort":9007199254740993`), "whole number"},
		"config 33 star":               {domains(`["*"]`, `[]`), "network.allowedDomains.0"},
		"config 33 scheme":             {domains(`["a.b","https://a.b"]`, `[]`), "network.allowedDomains.1"},
		"config 35":                    {domains(`[]`, `["*.com"]`), "network.deniedDomains.0"},
		"config 42 empty reason":       {withNetwork(`"deniedDomainReasons":{"a.b":""}`), "deniedDomainReasons.a.b"},
		"config 43":                    {withNetwork(`"tlsTerminate":{"excludeDomains":["a.b:443"]}`), "excludeDomains.0"},
		"config 44":                    {withNetwork(`"deniedResolvedAddresses":["10.0.0.0/33"]`), "deniedResolvedAddresses.0"},
		"config 45":                    {withNetwork(`"allowMachLookup":["a*b"]`), "allowMachLookup.0"},
		"config 45 leading":            {withNetwork(`"allowMachLookup":["*a"]`), "allowMachLookup.0"},
		"config 44 mapped":             {withNetwork(`"deniedResolvedAddresses":["::1/129","[::1]","::ffff:10.0.0.0/95"]`), "deniedResolvedAddresses.2"},
		"config 46 allowRead":          {withFilesystem(`"allowRead":[""]`), "filesystem.allowRead.0: must not be empty"},
		"config 46 allowWrite":         {list("allowWrite", `["a",""]`), "filesystem.allowWrite.1: must not be empty"},
		"config 46 denyWrite":          {list("denyWrite", `[""]`), "filesystem.denyWrite.0: must not be empty"},
		"empty socket path":            {withNetwork(`"allowUnixSockets":["/x",""]`), "network.allowUnixSockets.1: must not be empty"},
		"config 46 null":               {list("denyWrite", `[null]`), "filesystem.denyWrite.0: must not be null"},
		"config 46 no path":            {list("denyWrite", `[{"literal":true}]`), "filesystem.denyWrite.0"},
		"config 46 empty path":         {list("denyWrite", `[{"path":"","literal":true}]`), "filesystem.denyWrite.0"},
		"config 46 empty":              {list("denyRead", `[""]`), "filesystem.denyRead.0: must not be empty"},
		"config 46 no mark":            {list("denyRead", `[{"path":"/x"}]`), "filesystem.denyRead.0"},
		"config 46 false mark":         {list("denyRead", `[{"path":"/x","literal":false}]`), "filesystem.denyRead.0"},
		"config 46 more keys":          {list("denyRead", `[{"path":"/x","literal":true,"z":1}]`), "filesystem.denyRead.0"},
		"config 46 number":             {list("denyRead", `[7]`), "filesystem.denyRead.0"},
		"config 47 rooted":             {list("denyRead", `["/data/*/"]`), `write "/data/*"`},
		"config 47 home":               {list("denyWrite", `["~/x*/"]`), "matches nothing"},
		"config 47 subtree":            {list("denyRead", `["/h/**/"]`), "matches nothing"},
		"config 47 bracket":            {list("denyRead", `["/e/]/"]`), "matches nothing"},
		"config 47 credentials":        {withRoot(`"credentials":{"files":[{"path":"~/*/","mode":"deny"}]}`), `credentials.files.0.path: the pattern "~/*/" ends`},
		"config 68":                    {withRoot(`"credentials":{"envVars":[{"name":"A","mode":"mask"}]}`), "needs network.tlsTerminate"},
		"config 69":                    {withRoot(`"credentials":{"envVars":[{"name":"A","mode":"deny","injectHosts":["evil.com"]}]}`), "not covered"},
		"config 69 wildcard":           {strings.Replace(withRoot(`"credentials":{"envVars":[{"name":"A","mode":"deny","injectHosts":["*.github.com"]}]}`), `"a.b"`, `"api.github.com"`, 1), "not covered"},
		"one host not terminated":      {masked(`"injectHosts":["a.b"]`, `"a.b"`), "envVars.0.injectHosts.0: \"a.b\" is excluded"},
		"no host terminated":           {masked(`"onExtractNoMatch":"warn"`, `"a.b"`), "credentials.envVars.0: every allowed host is excluded"},
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
		"config 73 hyphen":             {withRoot(`"credentials":{"envVars":[{"name":"A-B","mode":"deny"}]}`), "envVars.0.name"},
		"config 73 line break":         {withRoot(`"credentials":{"envVars":[{"name":"A\n","mode":"deny"}]}`), "envVars.0.name"},
		"config 74":                    {withRoot(`"credentials":{"allowPlaintextInject":true,"files":[{"path":"/x/","mode":"mask"}]}`), "only a single file"},
		"config 75 twice":              {withRoot(`"credentials":{"allowPlaintextInject":true,"envVars":[{"name":"A","mode":"mask"}],"awsPairs":[{"accessKeyIdVar":"A","secretAccessKeyVar":"A"}]}`), "used twice"},
		"config 75 not masked":         {withRoot(`"credentials":{"awsPairs":[{"accessKeyIdVar":"A","secretAccessKeyVar":"B"}]}`), `with mode "mask"`},
		"config 75 extract":            {withRoot(`"credentials":{"allowPlaintextInject":true,"envVars":[{"name":"A","mode":"mask"},{"name":"B","mode":"mask","extract":"(x)"}],"awsPairs":[{"accessKeyIdVar":"A","secretAccessKeyVar":"B"}]}`), "secretAccessKeyVar: B needs"},
		"config 75 masked twice":       {withRoot(`"credentials":{"allowPlaintextInject":true,"envVars":[{"name":"A","mode":"mask"},{"name":"B","mode":"mask"},{"name":"B","mode":"mask","decode":"jwt"}],"awsPairs":[{"accessKeyIdVar":"A","secretAccessKeyVar":"B"}]}`), "secretAccessKeyVar: B needs"},
		"config 75 across pairs":       {withRoot(`"credentials":{"allowPlaintextInject":true,"envVars":[{"name":"A","mode":"mask"},{"name":"B","mode":"mask"},{"name":"C","mode":"mask"}],"awsPairs":[{"accessKeyIdVar":"A","secretAccessKeyVar":"B"},{"accessKeyIdVar":"C","secretAccessKeyVar":"B"}]}`), "awsPairs.1.secretAccessKeyVar: B is used twice"},
		"config 76":                    {withNetwork(`"tlsTerminate":{},"mitmProxy":{"socketPath":"/s","domains":["a.b"]}`), "mutually exclusive"}, // network 86
		"config 77":                    {withNetwork(`"tlsTerminate":{"caCertPath":"/c"}`), "given together"},
		"config 78 no URL":             {withNetwork(`"parentProxy":{"http":"foo"}`), "parentProxy.http"},
		"config 78 scheme":             {withNetwork(`"parentProxy":{"https":"socks4://h:1"}`), `"socks4" is not supported`},
		"config 77 key only":           {withNetwork(`"tlsTerminate":{"caKeyPath":"/c"}`), "given together"},
		"config 78 empty":              {withNetwork(`"parentProxy":{"http":""}`), "parentProxy.http"},
		"config 78 port":               {withNetwork(`"parentProxy":{"http":"http://h:99999"}`), "port of the proxy"},
		"config 78 no host":            {withNetwork(`"parentProxy":{"http":"http://:80"}`), "parentProxy.http"},
		"strange key":                  {withRoot(`"credentials":{"\u001b[2J":1}`), `credentials."\x1b[2J": unknown key`},
		"strange text":                 {"{\"a\": \x1b[2J}", "not valid JSON: line 1, column 7"},
		"ends too early":               {`{"network": {`, "not valid JSON: line 1, column 14: "},
		"ends too early, with lines":   {"{\n \"network\": {\n\n", "not valid JSON: line 2, column 14: "},
		"unclosed":                     {`{"network":"` + strings.Repeat("x", 1000), "not valid JSON"},
		"bad enum":                     {withNetwork(`"ambiguousRequestTarget":"maybe"`), "one of refuse, asSpelled, normalize"},
		"bad uuid":                     {withRoot(`"windows":{"sublayerGuid":"x"}`), "not a UUID"},
		"mitm without domains":         {withNetwork(`"mitmProxy":{"socketPath":"/s","domains":[]}`), "mitmProxy.domains: must not be empty"},
		"too deep":                     {strings.Repeat("[", 100) + strings.Repeat("]", 100), "nested more than 32 levels"},
		"too deep for any stack":       {strings.Repeat("[", 8<<20), "nested more than 32 levels"},
		"deep in objects":              {strings.Repeat(`{"a":`, 100), "nested more than 32 levels"},
		"too many values":              {"[" + strings.Repeat("1,", 1<<20) + "]", "more than 1048576 values"},

		"two values": {settings("", "", "") + "{}", "not valid JSON"},
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
	_, unknown, err := Parse([]byte(`{"network":{"allowedDomains":[],"deniedDomains":[],"strictAllowList":true},"filesystem":{"denyRead":[],"allowWrite":[],"denyWrite":[],"denyRaed":["x"],"allowedDomains":[]},"zzz":1,"allowWrite":["."],"AllowedDomains":[],"walltime":5}`))
	if err != nil {
		t.Fatal(err)
	}
	want := []UnknownKey{{"network.strictAllowList", "strictAllowlist"}, {"filesystem.denyRaed", "denyRead"}, {"filesystem.allowedDomains", "network.allowedDomains"}, {"zzz", ""},
		{"allowWrite", "filesystem.allowWrite"}, {"AllowedDomains", "network.allowedDomains"}, {"walltime", "limits.wallTime"}}
	if diff := cmp.Diff(want, unknown); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	_, unknown, err = Parse([]byte(`{"network":{"allowedDomains":[],"deniedDomains":[]},"filesystem":{"denyRead":[],"allowWrites":[],"denyWrite":[]}}`))
	if err == nil || len(unknown) != 1 || unknown[0] != (UnknownKey{"filesystem.allowWrites", "allowWrite"}) {
		t.Errorf("a misspelled required key: %v, %v", unknown, err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(settings("", "", ""))
	f.Add(list("denyRead", `["~/x",{"path":"a","literal":true}]`))
	f.Add(domains(`["a.b:443","*.c.d"]`, `["*"]`))
	f.Add(settings(`,"credentials":{"allowPlaintextInject":true,"envVars":[{"name":"A","mode":"mask","extract":"(\\s)"}]},"ripgrep":{"command":""},"windows":{"proxyPortRange":[1,2]}`, `,"parentProxy":{"http":"a:1","noProxy":""}`, `,"allowRead":[]`))
	f.Add(withNetwork(`"publishPorts":[1,"2:3","[::1]:4"],"allowHostPorts":[5]`))
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
		var document any
		if err := json.Unmarshal(data, &document); err != nil {
			t.Fatal(err)
		}
		if problem := newSchemaChecker(t).check("(root)", document); problem != "" {
			t.Errorf("the schema refuses what Parse accepts: %s\n%s", problem, data)
		}
		if diff := cmp.Diff(c, again); diff != "" {
			t.Errorf("changed on the way through JSON:\n%s", diff)
		}
	})
}
