package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/tailscale/hujson"
)

// schemaChecker applies the keywords that Schema emits and fails the test on
// any other.
type schemaChecker struct {
	t    testing.TB
	root map[string]any
}

func newSchemaChecker(t testing.TB) *schemaChecker {
	var root map[string]any
	if err := json.Unmarshal(Schema(), &root); err != nil {
		t.Fatal(err)
	}
	return &schemaChecker{t, root}
}

// check returns what is wrong with a document, or nothing.
func (c *schemaChecker) check(at string, v any) string { return c.apply(c.root, at, v) }

func (c *schemaChecker) apply(s map[string]any, at string, v any) string {
	for _, keyword := range slices.Sorted(maps.Keys(s)) {
		if t := appliesTo(keyword); t != "" && t != typeOf(v) {
			continue
		}
		if problem := c.keyword(s, keyword, at, v); problem != "" {
			return problem
		}
	}
	return ""
}

// appliesTo is the type of values that a keyword constrains; others it ignores.
func appliesTo(keyword string) string {
	switch keyword {
	case "minimum", "maximum":
		return "number"
	case "minLength", "maxLength", "pattern":
		return "string"
	case "minItems", "maxItems", "items":
		return "array"
	case "required", "properties", "additionalProperties":
		return "object"
	}
	return ""
}

func (c *schemaChecker) keyword(s map[string]any, keyword, at string, v any) string {
	want := s[keyword]
	number, _ := want.(float64)
	ok := true
	switch keyword {
	case "$schema", "title", "description":
	case "type":
		ok = typeOf(v) == want || want == "integer" && typeOf(v) == "number" && v == float64(int64(v.(float64)))
	case "enum":
		ok = slices.Contains(want.([]any), v)
	case "const":
		ok = v == want
	case "minimum":
		ok = v.(float64) >= number
	case "maximum":
		ok = v.(float64) <= number
	case "minLength":
		ok = utf8.RuneCountInString(v.(string)) >= int(number)
	case "maxLength":
		ok = utf8.RuneCountInString(v.(string)) <= int(number)
	case "pattern":
		ok = regexp.MustCompile(want.(string)).MatchString(v.(string))
	case "minItems":
		ok = len(v.([]any)) >= int(number)
	case "maxItems":
		ok = len(v.([]any)) <= int(number)
	default:
		return c.composite(s, keyword, at, v)
	}
	if ok {
		return ""
	}
	return fmt.Sprintf("%s: %v is against %s %v", at, v, keyword, want)
}

func (c *schemaChecker) composite(s map[string]any, keyword, at string, v any) string {
	switch keyword {
	case "required":
		for _, key := range s[keyword].([]any) {
			if _, ok := v.(map[string]any)[key.(string)]; !ok {
				return at + ": lacks " + key.(string)
			}
		}
	case "properties":
		return c.members(s[keyword].(map[string]any), at, v)
	case "additionalProperties":
		return c.others(s, at, v)
	case "items":
		for i, e := range v.([]any) {
			if problem := c.apply(s[keyword].(map[string]any), fmt.Sprint(at, ".", i), e); problem != "" {
				return problem
			}
		}
	case "anyOf":
		for _, alternative := range s[keyword].([]any) {
			if c.apply(alternative.(map[string]any), at, v) == "" {
				return ""
			}
		}
		return at + ": no alternative fits"
	default:
		c.t.Errorf("the checker does not know the keyword %s", keyword)
	}
	return ""
}

func (c *schemaChecker) members(properties map[string]any, at string, v any) string {
	object := v.(map[string]any)
	for key, sub := range properties {
		if value, ok := object[key]; ok {
			if problem := c.apply(sub.(map[string]any), at+"."+key, value); problem != "" {
				return problem
			}
		}
	}
	return ""
}

func (c *schemaChecker) others(s map[string]any, at string, v any) string {
	properties, _ := s["properties"].(map[string]any)
	for key, value := range v.(map[string]any) {
		if _, known := properties[key]; known {
			continue
		}
		sub, ok := s["additionalProperties"].(map[string]any)
		if !ok {
			return at + ": unknown key " + key
		}
		if problem := c.apply(sub, at+"."+key, value); problem != "" {
			return problem
		}
	}
	return ""
}

func typeOf(v any) string {
	switch v.(type) {
	case map[string]any:
		return "object"
	case []any:
		return "array"
	case string:
		return "string"
	case bool:
		return "boolean"
	case float64:
		return "number"
	}
	return "null"
}

func document(t testing.TB, data []byte) any {
	t.Helper()
	plain, err := hujson.Standardize(slices.Clone(data))
	if err != nil {
		t.Fatal(err)
	}
	var v any
	if err := json.Unmarshal(plain, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// The examples are valid, survive a round trip and fit the schema.
func TestExamples(t *testing.T) {
	files, err := filepath.Glob("testdata/examples/*.json")
	if err != nil || len(files) == 0 {
		t.Fatal("no examples", err)
	}
	checker := newSchemaChecker(t)
	for _, f := range files {
		c, unknown, err := Load(f)
		if err != nil || len(unknown) > 0 {
			t.Errorf("%s: %v, unknown %v", f, err, unknown)
			continue
		}
		if err := c.Validate(); err != nil {
			t.Errorf("%s: parsed, but not valid: %v", f, err)
		}
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if problem := checker.check("(root)", document(t, data)); problem != "" {
			t.Errorf("%s does not fit the schema: %s", f, problem)
		}
		again, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		if back, _, err := Parse(again); err != nil || !cmp.Equal(c, back) {
			t.Errorf("%s changes on the way through JSON: %v\n%s", f, err, cmp.Diff(c, back))
		}
	}
}

// What the schema can say, it says: both refuse these.
func TestSchemaRefuses(t *testing.T) {
	checker := newSchemaChecker(t)
	for name, text := range map[string]string{
		"config 17":                `{}`,
		"config 18":                `[]`,
		"config 19":                `{"network":{},"filesystem":{}}`,
		"config 20":                withFilesystem(`"allowRead":null`),
		"config 21":                withRoot(`"allowPty":"yes"`),
		"config 22 range":          withRoot(`"mandatoryDenySearchDepth":11`),
		"config 22 fraction":       withRoot(`"mandatoryDenySearchDepth":1.5`),
		"config 24":                withRoot(`"credentials":{"injectHosts":[]}`),
		"config 29":                withRoot(`"ripgrep":{}`),
		"config 30 length":         withRoot(`"windows":{"proxyPortRange":[1]}`),
		"config 31":                withRoot(`"windows":{"sandboxUser":"abcdefghijklmnopqrstu"}`),
		"config 32":                withNetwork(`"socksProxyPort":0`),
		"config 42":                withNetwork(`"deniedDomainReasons":{"a.b":""}`),
		"config 46 empty":          list("denyRead", `[""]`),
		"config 46 without a mark": list("denyRead", `[{"path":"/x"}]`),
		"config 46 false mark":     list("denyRead", `[{"path":"/x","literal":false}]`),
		"config 46 more keys":      list("denyRead", `[{"path":"/x","literal":true,"z":1}]`),
		"empty socket path":        withNetwork(`"allowUnixSockets":[""]`),
		"config 71":                withRoot(`"credentials":{"envVars":[{"name":"A","mode":"deny","decode":"jwt","maskClaims":[]}]}`),
		"config 73":                withRoot(`"credentials":{"envVars":[{"name":"1A","mode":"deny"}]}`),
		"bad enum":                 withNetwork(`"ambiguousRequestTarget":"maybe"`),
		"bad uuid":                 withRoot(`"windows":{"sublayerGuid":"x"}`),
	} {
		if _, _, err := Parse([]byte(text)); err == nil {
			t.Errorf("%s: Parse accepts it", name)
		}
		if checker.check("(root)", document(t, []byte(text))) == "" {
			t.Errorf("%s: the schema accepts it", name)
		}
	}
}

// schemaKeys lists the dotted names of the properties, elements of lists as "*".
func schemaKeys(s map[string]any, at string) []string {
	var all []string
	if items, ok := s["items"].(map[string]any); ok {
		return schemaKeys(items, at+".*")
	}
	properties, _ := s["properties"].(map[string]any)
	for key, sub := range properties {
		name := strings.TrimPrefix(at+"."+key, ".")
		all = append(append(all, name), schemaKeys(sub.(map[string]any), name)...)
	}
	return all
}

// nested makes a document whose innermost object has one key.
func nested(key string) string {
	parts := strings.Split(key, ".")
	text := "null"
	for _, p := range slices.Backward(parts) {
		if p == "*" {
			text = "[" + text + "]"
		} else {
			text = fmt.Sprintf("{%q:%s}", p, text)
		}
	}
	return text
}

// issuesOf returns everything that is said about a key in a document.
func issuesOf(t *testing.T, key string) string {
	t.Helper()
	c, unknown, err := Parse([]byte(nested(key)))
	if err == nil {
		t.Fatalf("a file with nothing but %s was accepted: %v", key, c)
	}
	return fmt.Sprint(err, unknown)
}

// The schema and the decoder know the same keys, and the keys of a misspelling's
// neighbours are not taken for it.
func TestSchemaAndParserKnowTheSameKeys(t *testing.T) {
	inSchema := schemaKeys(newSchemaChecker(t).root, "")
	slices.Sort(inSchema)
	if diff := cmp.Diff(slices.Sorted(slices.Values(Keys())), inSchema); diff != "" {
		t.Errorf("(-types +schema):\n%s", diff)
	}
	for _, key := range inSchema {
		where := strings.ReplaceAll(key, "*", "0")
		if said := issuesOf(t, key); !strings.Contains(said, where+": must not be null") {
			t.Errorf("the decoder does not know %s: %s", key, said)
		}
		if said := issuesOf(t, key+"X"); strings.Contains(said, where+"X: must not be null") {
			t.Errorf("the decoder takes %sX for a key", key)
		}
	}
}

// The examples name every key, so that each is read from a file at least once.
func TestExamplesNameEveryKey(t *testing.T) {
	named := map[string]bool{}
	files, err := filepath.Glob("testdata/examples/*.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		collectKeys(document(t, data), "", named)
	}
	for _, key := range Keys() {
		if !named[key] {
			t.Errorf("no example has the key %s", key)
		}
	}
}

func collectKeys(v any, at string, named map[string]bool) {
	switch v := v.(type) {
	case map[string]any:
		for key, sub := range v {
			name := strings.TrimPrefix(at+"."+key, ".")
			named[name] = true
			collectKeys(sub, name, named)
		}
	case []any:
		for _, e := range v {
			collectKeys(e, at+".*", named)
		}
	}
}
