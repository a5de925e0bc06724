package config

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPublish(t *testing.T) {
	checker := newSchemaChecker(t)
	for text, want := range map[string]Publish{
		`3000`:                      {Port: 3000, Inside: 3000},
		`"3000"`:                    {Port: 3000, Inside: 3000},
		`"8080:3000"`:               {Port: 8080, Inside: 3000},
		`"0:3000"`:                  {Inside: 3000},
		`"127.0.0.1:3000"`:          {Host: "127.0.0.1", Port: 3000, Inside: 3000},
		`"LocalHost:8080:3000"`:     {Host: "127.0.0.1", Port: 8080, Inside: 3000},
		`"0.0.0.0:0:3000"`:          {Host: "0.0.0.0", Inside: 3000},
		`"[::1]:3000"`:              {Host: "::1", Port: 3000, Inside: 3000},
		`"[::]:65535:1"`:            {Host: "::", Port: 65535, Inside: 1},
		`"[::ffff:127.0.0.1]:80:1"`: {Host: "127.0.0.1", Port: 80, Inside: 1},
	} {
		data := []byte(withNetwork(`"publishPorts":[` + text + `]`))
		c, unknown, err := Parse(data)
		if err != nil || len(unknown) > 0 {
			t.Errorf("%s: %v, unknown %v", text, err, unknown)
			continue
		}
		if diff := cmp.Diff([]Publish{want}, c.Network.PublishPorts); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
		if problem := checker.check("(root)", document(t, data)); problem != "" {
			t.Errorf("%s does not fit the schema: %s", text, problem)
		}
		again, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		if back, _, err := Parse(again); err != nil || !cmp.Equal(c, back) {
			t.Errorf("%s changes on the way through JSON: %v\n%s", text, err, again)
		}
		var plain Config
		if err := json.Unmarshal(again, &plain); err != nil || !cmp.Equal(plain.Network.PublishPorts, c.Network.PublishPorts) {
			t.Errorf("%s changes on the way through encoding/json: %v", text, err)
		}
	}
}

func TestPublishAddress(t *testing.T) {
	for want, p := range map[string]Publish{
		"127.0.0.1:3000": {Port: 3000, Inside: 1},
		"127.0.0.1:1":    {Host: "localhost", Port: 1, Inside: 1},
		"[::1]:0":        {Host: "::1", Inside: 1},
	} {
		if p.Address() != want {
			t.Errorf("%+v: %s, want %s", p, p.Address(), want)
		}
	}
}

func TestPublishRefused(t *testing.T) {
	checker := newSchemaChecker(t)
	for text, want := range map[string]string{
		`0`:                        "network.publishPorts.0: must be 1 to 65535",
		`70000`:                    "must be 1 to 65535",
		`true`:                     "must be a number or a text",
		`null`:                     "must not be null",
		`""`:                       "[HOST:]PORT[:INSIDE]",
		`":3000"`:                  `the host "" is not an address`,
		`"3000:"`:                  "[HOST:]PORT[:INSIDE]",
		`"+3000"`:                  "[HOST:]PORT[:INSIDE]",
		`"3000:4000:5000"`:         "[HOST:]PORT[:INSIDE]",
		`"0"`:                      "the port inside is missing",
		`"127.0.0.1:0"`:            "the port inside is missing",
		`"3000:0"`:                 "the port inside is missing",
		`"65536"`:                  "ports must be 1 to 65535",
		`"1:99999999999999999999"`: "[HOST:]PORT[:INSIDE]",
		`"example.com:80"`:         `the host "example.com" is not an address`,
		`"*:80"`:                   `the host "*" is not an address`,
		`"::1:80"`:                 "[HOST:]PORT[:INSIDE]",
		`"[fe80::1%eth0]:80"`:      "is not an address",
		`"127.1:80"`:               "is not an address",
	} {
		data := []byte(withNetwork(`"publishPorts":[` + text + `]`))
		if _, _, err := Parse(data); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	if checker.check("(root)", document(t, []byte(withNetwork(`"publishPorts":[true]`)))) == "" {
		t.Error("the schema accepts a truth value")
	}
	c := Default()
	c.Network.PublishPorts = []Publish{{Port: 1, Inside: 1}, {Port: -1, Inside: 1}, {Host: "a.b", Inside: 1}, {Port: 1}}
	err := c.Validate()
	for _, want := range []string{"publishPorts.1: ports must be", `publishPorts.2: the host "a.b"`, "publishPorts.3: the port inside"} {
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "publishPorts.0") {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestHostPorts(t *testing.T) {
	checker := newSchemaChecker(t)
	good := withNetwork(`"allowHostPorts":[1,5432,65535]`)
	c, _, err := Parse([]byte(good))
	if err != nil || !cmp.Equal(c.Network.AllowHostPorts, []int{1, 5432, 65535}) || checker.check("(root)", document(t, []byte(good))) != "" {
		t.Errorf("%v", err)
	}
	for text, want := range map[string]string{
		`0`:      "network.allowHostPorts.0: must be 1 to 65535",
		`-1`:     "must be 1 to 65535",
		`65536`:  "must be 1 to 65535",
		`1.5`:    "whole number",
		`"5432"`: "must be a number, is a text",
		`null`:   "must not be null",
	} {
		data := []byte(withNetwork(`"allowHostPorts":[` + text + `]`))
		if _, _, err := Parse(data); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
		if checker.check("(root)", document(t, data)) == "" {
			t.Errorf("%s: the schema accepts it", text)
		}
	}
	made := Default()
	made.Network.AllowHostPorts = []int{80, 0}
	if err := made.Validate(); err == nil || !strings.Contains(err.Error(), "allowHostPorts.1") {
		t.Errorf("%v", err)
	}
}
