package config

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
)

// Schema returns a JSON Schema (draft 2020-12) of the settings, generated from
// the types that Parse fills. It is looser than Parse where JSON Schema has no
// words for a rule; it never refuses what Parse accepts.
func Schema() []byte {
	root := schemaOf(reflect.TypeFor[Config](), rules{})
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["title"] = "srt settings"
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(root); err != nil {
		panic("config: the schema of fixed types does not encode: " + err.Error())
	}
	return out.Bytes()
}

type schema map[string]any

func schemaOf(t reflect.Type, r rules) schema {
	if t == reflect.TypeFor[PathEntry]() {
		return pathEntrySchema()
	}
	switch t {
	case reflect.TypeFor[Size]():
		return quantitySchema("bytes", "a size such as 64k, 512m or 2g", sizePattern)
	case reflect.TypeFor[Duration]():
		return quantitySchema("seconds", "a time such as 90s, 10m or 1h30m", durationPattern)
	case reflect.TypeFor[Publish]():
		return quantitySchema("a port, the same on both sides", "[HOST:]PORT[:INSIDE]", publishPattern)
	}
	switch t.Kind() {
	case reflect.Pointer:
		return schemaOf(t.Elem(), r)
	case reflect.Struct:
		return objectSchema(t)
	case reflect.Slice:
		return listSchema(t, r)
	case reflect.Map:
		return schema{"type": "object", "additionalProperties": schemaOf(t.Elem(), eachRules(r.each))}
	case reflect.Bool:
		return schema{"type": "boolean"}
	case reflect.Int:
		s := schema{"type": "integer"}
		if r.max != 0 {
			s["minimum"], s["maximum"] = r.min, r.max
		}
		return s
	}
	return stringSchema(r)
}

// eachRules turns the rule for the elements of a list into the rules of one.
func eachRules(each string) rules {
	switch each {
	case "nonempty":
		return rules{nonempty: true}
	case "port":
		return rules{min: 1, max: maxPort}
	}
	return rules{format: each}
}

func objectSchema(t reflect.Type) schema {
	properties, required := schema{}, []string{}
	for _, f := range fieldsOf(t).list {
		properties[f.key] = schemaOf(t.Field(f.index).Type, f.rules)
		if f.rules.required {
			required = append(required, f.key)
		}
	}
	s := schema{"type": "object", "properties": properties}
	if len(required) > 0 {
		s["required"] = required
	}
	if isStrict(t.Name()) {
		s["additionalProperties"] = false
	}
	return s
}

func listSchema(t reflect.Type, r rules) schema {
	s := schema{"type": "array", "items": schemaOf(t.Elem(), eachRules(r.each))}
	if r.nonempty {
		s["minItems"] = 1
	}
	if r.format == "portrange" {
		s["minItems"], s["maxItems"] = 2, 2
	}
	return s
}

func stringSchema(r rules) schema {
	s := schema{"type": "string"}
	switch {
	case r.nonempty, r.format == "allowhost", r.format == "denyhost", r.format == "host", r.format == "range":
		s["minLength"] = 1
	case r.max != 0:
		s["minLength"], s["maxLength"] = r.min, r.max
	}
	if len(r.enum) > 0 {
		s["enum"] = r.enum
	}
	switch r.format {
	case "envname":
		s["pattern"] = environmentName
	case "uuid":
		s["pattern"] = uuid
	}
	return s
}

func quantitySchema(unit, text, pattern string) schema {
	return schema{"anyOf": []schema{
		{"type": "integer", "minimum": 1, "description": unit},
		{"type": "string", "pattern": pattern, "description": text},
	}}
}

func pathEntrySchema() schema {
	return schema{"anyOf": []schema{
		{"type": "string", "minLength": 1, "description": "a path, or a pattern with * ? ** [..]"},
		{"type": "object", "properties": schema{"path": schema{"type": "string", "minLength": 1}, "literal": schema{"const": true}},
			"required": []string{"path", "literal"}, "additionalProperties": false},
	}}
}

// Keys returns the dotted names of every settings key, elements of lists as "*".
func Keys() []string {
	var all []string
	var walk func(at string, t reflect.Type)
	walk = func(at string, t reflect.Type) {
		switch {
		case t == reflect.TypeFor[PathEntry](), t == reflect.TypeFor[Publish]():
		case t.Kind() == reflect.Pointer:
			walk(at, t.Elem())
		case t.Kind() == reflect.Slice:
			walk(at+".*", t.Elem())
		case t.Kind() == reflect.Struct:
			for _, f := range fieldsOf(t).list {
				key := strings.TrimPrefix(at+"."+f.key, ".")
				all = append(all, key)
				walk(key, t.Field(f.index).Type)
			}
		}
	}
	walk("", reflect.TypeFor[Config]())
	return all
}
