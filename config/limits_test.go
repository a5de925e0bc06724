package config

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func withLimits(text string) string { return withRoot(`"limits":{` + text + `}`) }

func TestLimits(t *testing.T) {
	checker := newSchemaChecker(t)
	for text, want := range map[string]Limits{
		`"memory":1048576`:                       {Memory: 1 << 20},
		`"memory":"64k"`:                         {Memory: 64 << 10},
		`"memory":"64KiB","fileSize":"3B"`:       {Memory: 64 << 10, FileSize: 3},
		`"memory":"512MB","fileSize":"2Gi"`:      {Memory: 512 << 20, FileSize: 2 << 30},
		`"fileSize":"1t"`:                        {FileSize: 1 << 40},
		`"fileSize":"7"`:                         {FileSize: 7},
		`"processes":1,"openFiles":3`:            {Processes: 1, OpenFiles: 3},
		`"cpuTime":90,"wallTime":"1h30m"`:        {CPUTime: Duration(90 * time.Second), WallTime: Duration(90 * time.Minute)},
		`"cpuTime":"10m","wallTime":"300ms"`:     {CPUTime: Duration(10 * time.Minute), WallTime: Duration(300 * time.Millisecond)},
		`"cpuTime":"15","wallTime":1e2`:          {CPUTime: Duration(15 * time.Second), WallTime: Duration(100 * time.Second)},
		`"cpuTime":"+.5s","wallTime":9223372036`: {CPUTime: Duration(time.Second / 2), WallTime: Duration(9223372036 * time.Second)},
	} {
		data := []byte(withLimits(text))
		c, unknown, err := Parse(data)
		if err != nil || len(unknown) > 0 {
			t.Errorf("%s: %v, unknown %v", text, err, unknown)
			continue
		}
		if diff := cmp.Diff(&want, c.Limits); diff != "" {
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
			t.Errorf("%s changes on the way through JSON: %v\n%s", text, err, cmp.Diff(c, back))
		}
		var plain Config
		if err := json.Unmarshal(again, &plain); err != nil || !cmp.Equal(plain.Limits, c.Limits) {
			t.Errorf("%s changes on the way through encoding/json: %v", text, err)
		}
	}
}

func TestLimitsRefused(t *testing.T) {
	for text, want := range map[string]string{
		`"memory":0`:                      "limits.memory: must be more than 0",
		`"memory":-5`:                     "limits.memory: must be more than 0",
		`"memory":"0m"`:                   "limits.memory: must be more than 0",
		`"memory":"-1m"`:                  `limits.memory: "-1m" is not a size`,
		`"memory":"m"`:                    "limits.memory: \"m\" is not a size",
		`"memory":""`:                     "limits.memory: \"\" is not a size",
		`"memory":"5x"`:                   "is not a size",
		`"memory":"5ib"`:                  "is not a size",
		`"memory":"5kk"`:                  "is not a size",
		`"memory":"5 m"`:                  "is not a size",
		`"memory":"1.5g"`:                 "is not a size",
		`"memory":"9999999999t"`:          `limits.memory: "9999999999t" is too large`,
		`"memory":1.5`:                    "limits.memory: must be a whole number",
		`"memory":true`:                   "limits.memory: must be a number or a text, is true or false",
		`"fileSize":null`:                 "limits.fileSize: must not be null",
		`"processes":0`:                   "limits.processes: must be 1 to",
		`"processes":"5"`:                 "limits.processes: must be a number",
		`"openFiles":-1`:                  "limits.openFiles: must be 1 to",
		`"cpuTime":"5 minutes"`:           `limits.cpuTime: "5 minutes" is not a time`,
		`"cpuTime":"-5s"`:                 "limits.cpuTime: must be more than 0",
		`"wallTime":0`:                    "limits.wallTime: must be more than 0",
		`"wallTime":9223372037`:           "limits.wallTime: 9223372037 seconds are too long",
		`"wallTime":"9999999999h"`:        "is not a time",
		`"walltime":5`:                    `limits.walltime: unknown key; did you mean "wallTime"?`,
		`"memory":1,"memory":2`:           "limits.memory: is given more than once",
		`"cpuTime":[],"wallTime":{"a":1}`: "limits.cpuTime: must be a number or a text, is a list; limits.wallTime",
	} {
		_, _, err := Parse([]byte(withLimits(text)))
		if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", text, err, want)
		}
	}
}

func TestLimitsValidate(t *testing.T) {
	for want, l := range map[string]*Limits{
		"limits.memory: must be":    {Memory: -1},
		"limits.wallTime: must be":  {WallTime: -1},
		"limits.processes: must be": {Processes: -1},
	} {
		if err := l.Validate(); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q", err, want)
		}
		c := Default()
		c.Limits = l
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q", err, want)
		}
	}
	if err := (&Limits{Memory: 1}).Validate(); err != nil {
		t.Error(err)
	}
	if err := (*Limits)(nil).Validate(); err != nil {
		t.Error(err)
	}
}

// On a command line every value is a text.
func TestLimitsSet(t *testing.T) {
	var l Limits
	for _, set := range [][2]string{{"memory", "2g"}, {"processes", "8"}, {"open-files", "64"}, {"file-size", "100"}, {"cpu-time", "60"}, {"wall-time", "10m"}} {
		if err := l.Set(set[0], set[1]); err != nil {
			t.Errorf("%v: %v", set, err)
		}
	}
	want := Limits{Memory: 2 << 30, Processes: 8, OpenFiles: 64, FileSize: 100, CPUTime: Duration(time.Minute), WallTime: Duration(10 * time.Minute)}
	if l != want {
		t.Errorf("%+v", l)
	}
	for want, set := range map[string][2]string{
		`"openFiles" is none of memory, processes, open-files, file-size, cpu-time, wall-time`: {"openFiles", "1"},
		`processes: "0x10" is not a whole number`:                                              {"processes", "0x10"},
		`processes: "1.5" is not a whole number`:                                               {"processes", "1.5"},
		"processes: must be 1 to":                                                              {"processes", "0"},
		`memory: "much" is not a size`:                                                         {"memory", "much"},
		"cpu-time: must be more than 0":                                                        {"cpu-time", "0"},
	} {
		if err := l.Set(set[0], set[1]); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q", err, want)
		}
	}
}

func TestLimitsWith(t *testing.T) {
	base := &Limits{Memory: 5, Processes: 6}
	if got := base.With(&Limits{Memory: 9, CPUTime: 1}); got != (Limits{Memory: 9, Processes: 6, CPUTime: 1}) {
		t.Errorf("%+v", got)
	}
	if got := base.With(nil); got != *base {
		t.Errorf("%+v", got)
	}
	if got := (*Limits)(nil).With(base); got != *base {
		t.Errorf("%+v", got)
	}
}

func TestLimitTexts(t *testing.T) {
	for want, got := range map[string]string{
		"2g": Size(2 << 30).String(), "1025": Size(1025).String(), "64k": Size(64 << 10).String(), "0": Size(0).String(),
		"10m": Duration(10 * time.Minute).String(), "1h": Duration(time.Hour).String(), "1h0m5s": Duration(time.Hour + 5*time.Second).String(),
		"1m30s": Duration(90 * time.Second).String(), "300ms": Duration(300 * time.Millisecond).String(),
	} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
