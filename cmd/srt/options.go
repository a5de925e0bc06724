package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/srt-sandbox/srt/config"
)

const usage = `Usage:
  srt [options] [--] PROGRAM [ARGUMENT...]   run a program, arguments unchanged
  srt [options] "COMMAND LINE"               run one argument with blanks as a shell would
  srt [options] -c SCRIPT [ARGUMENT...]      run a script with bash; arguments become $0, $1 ...
  srt config schema                          print the JSON Schema of the settings
  srt doctor [options]                       say what this machine offers, which backend runs and
                                             what to do about what is missing (srt doctor --help)

Options (they end at the first word that is not one of them):
  -s, --settings FILE         settings file (default: ~/.srt-settings.json, if it exists)
      --strict-settings       refuse settings with unknown keys
  -c SCRIPT                   script to run
      --limit NAME=VALUE      bound the command, over the settings; NAME is memory, processes,
                              open-files, file-size, cpu-time or wall-time: memory=2g,
                              wall-time=10m (repeatable)
      --publish [HOST:]PORT[:INSIDE]
                              lead connections to PORT of this machine to a server of the command
                              on port INSIDE; only this machine can connect unless HOST says
                              otherwise; PORT 0 is any that is free (repeatable)
      --allow-domain HOST     let this command reach HOST or HOST:PORT, too; the form is that of
                              network.allowedDomains (repeatable)
      --ask                   ask on the terminal about hosts that no list mentions, instead of
                              refusing them; the command is stopped meanwhile
      --ask-timeout TIME      how long a question waits before it counts as refused (default: 60s)
      --log FILE|fd:N         append one JSON line for each decision about a connection
      --violations WHEN       auto, always, never or json: report refused operations after
                              the command ended (default: auto, when stderr is a terminal)
      --trace                 report refused reads, too; slows opening files down
      --violations-fd N       write the report to descriptor N instead of stderr
      --exit-code-on-failure N  status when srt itself fails or refuses (default: 1)
      --control-fd N          read further settings, one JSON object a line, from descriptor N
      --new-session           keep the terminal from the command
  -d, --debug                 debug lines on stderr; so does SRT_DEBUG=1
  -V, --version               print the version
  -h, --help                  print this text

Without settings a command has no network, writes nothing but its own temporary
directory, and reads everything.

Examples:
  srt npm test
  srt -s ci.json -c 'make && ./run-tests | tee log'
`

// options are what a command line asks for.
type options struct {
	script        string
	settings      *string
	strict        bool
	debug         bool
	version, help bool
	newSession    bool
	trace         bool
	limits        config.Limits
	publish       []config.Publish
	allowDomains  []string
	log           logTarget
	ask           bool
	askTimeout    time.Duration
	violations    string
	violationsFD  int
	controlFD     int
	failureStatus int
	json, profile bool // of doctor
	subcommand    string
	args          []string
}

// flag is one option: exactly one of the two functions is set.
type flag struct {
	names []string
	set   func(*options)
	value func(*options, string) error
}

var flags = []flag{
	{names: []string{"-c"}, value: func(o *options, v string) error { o.script = v; return nil }},
	{names: []string{"-s", "--settings"}, value: setSettings},
	{names: []string{"--strict-settings"}, set: func(o *options) { o.strict = true }},
	{names: []string{"-d", "--debug"}, set: func(o *options) { o.debug = true }},
	{names: []string{"-V", "--version"}, set: func(o *options) { o.version = true }},
	{names: []string{"-h", "--help"}, set: func(o *options) { o.help = true }},
	{names: []string{"--new-session"}, set: func(o *options) { o.newSession = true }},
	{names: []string{"--trace"}, set: func(o *options) { o.trace = true }},
	{names: []string{"--limit"}, value: setLimit},
	{names: []string{"--publish"}, value: addPublish},
	{names: []string{"--allow-domain"}, value: addDomain},
	{names: []string{"--ask"}, set: func(o *options) { o.ask = true }},
	{names: []string{"--ask-timeout"}, value: setAskTimeout},
	{names: []string{"--log"}, value: setLog},
	{names: []string{"--violations"}, value: setViolations},
	{names: []string{"--violations-fd"}, value: setViolationsFD},
	{names: []string{"--exit-code-on-failure"}, value: setFailureStatus},
	{names: []string{"--control-fd"}, value: setControlFD},
}

func setSettings(o *options, v string) error {
	if v == "" {
		return errors.New("reading --settings: the value is empty; name a file, or leave the option out for the default")
	}
	o.settings = &v
	return nil
}

func setLimit(o *options, v string) error {
	name, value, ok := strings.Cut(v, "=")
	if !ok {
		return fmt.Errorf("reading --limit: %q is not of the form NAME=VALUE, such as memory=2g", v)
	}
	if err := o.limits.Set(name, value); err != nil {
		return fmt.Errorf("reading --limit: %w", err)
	}
	return nil
}

func addPublish(o *options, v string) error {
	p, err := config.ParsePublish(v)
	if err != nil {
		return fmt.Errorf("reading --publish: %w", err)
	}
	o.publish = append(o.publish, p)
	return nil
}

// addDomain leaves the check of the entry to the library, which names it.
func addDomain(o *options, v string) error {
	if v == "" {
		return errors.New("reading --allow-domain: the value is empty; name a host, such as registry.npmjs.org or *.github.com:443")
	}
	o.allowDomains = append(o.allowDomains, v)
	return nil
}

// setAskTimeout takes seconds, or a time with units.
func setAskTimeout(o *options, v string) error {
	d, err := time.ParseDuration(v)
	if seconds, e := strconv.ParseUint(v, 10, 16); e == nil {
		d, err = time.Duration(seconds)*time.Second, nil
	}
	if err != nil || d < time.Second || d > 24*time.Hour {
		return fmt.Errorf("reading --ask-timeout: %q is not a time from 1s to 24h, such as 90s or 5m", v)
	}
	o.askTimeout = d
	return nil
}

func setViolations(o *options, v string) error {
	switch v {
	case "auto", "always", "never", "json":
		o.violations = v
		return nil
	}
	return fmt.Errorf("reading --violations: %q is none of auto, always, never, json", v)
}

func setViolationsFD(o *options, v string) error {
	n, err := strconv.ParseUint(v, 10, 16)
	if err != nil || n < 1 {
		return fmt.Errorf("reading --violations-fd: %q is not a descriptor number", v)
	}
	o.violationsFD = int(n)
	return nil
}

// setControlFD takes decimal digits and nothing else, so that two readers of one
// command line cannot disagree about the number.
func setControlFD(o *options, v string) error {
	n, err := strconv.ParseUint(v, 10, 16)
	if err != nil || n < 3 || strconv.FormatUint(n, 10) != v {
		return fmt.Errorf("reading --control-fd: %q is not a descriptor number of 3 or more", v)
	}
	o.controlFD = int(n)
	return nil
}

func setFailureStatus(o *options, v string) error {
	n, err := strconv.ParseUint(v, 10, 8)
	if err != nil || n == 0 {
		return fmt.Errorf("reading --exit-code-on-failure: %q is not a status from 1 to 255", v)
	}
	o.failureStatus = int(n)
	return nil
}

// subcommands are recognised as the first word, never after "--".
var subcommands = map[string]bool{"config": true, "doctor": true, "proxy": true, "windows-install": true, "windows-uninstall": true}

// parseOptions reads srt's own options up to the first word that is not one.
// From there on everything belongs to the command, so that arguments which a
// caller passes through can never change the policy.
func parseOptions(args []string) (*options, error) {
	o := &options{violations: "auto", violationsFD: 2, failureStatus: statusRefused}
	for len(args) > 0 {
		if args[0] == "--" {
			o.args = args[1:]
			return o, o.check()
		}
		used, err := o.parseOne(flags, args)
		if err != nil {
			return o, err
		}
		if used == 0 {
			break
		}
		args = args[used:]
	}
	if len(args) > 0 && subcommands[args[0]] {
		o.subcommand, args = args[0], args[1:]
	}
	o.args = args
	return o, o.check()
}

// parseOne reads the known option at the start of args and returns how many words it
// took, 0 if there is none.
func (o *options) parseOne(known []flag, args []string) (int, error) {
	word := args[0]
	for _, f := range known {
		for _, name := range f.names {
			switch {
			case f.set != nil && word == name:
				f.set(o)
				return 1, nil
			case f.value != nil && word == name:
				if len(args) < 2 {
					return 0, fmt.Errorf("reading %s: the value is missing", name)
				}
				return 2, f.value(o, args[1])
			case f.value != nil:
				if v, ok := attached(word, name); ok {
					return 1, f.value(o, v)
				}
			}
		}
	}
	return 0, nil
}

// attached splits --name=VALUE and -nVALUE.
func attached(word, name string) (string, bool) {
	if strings.HasPrefix(name, "--") {
		return strings.CutPrefix(word, name+"=")
	}
	v, ok := strings.CutPrefix(word, name)
	return v, ok && v != "" && !strings.HasPrefix(word, "--")
}

func (o *options) check() error {
	if o.askTimeout != 0 && !o.ask {
		return errors.New("reading --ask-timeout: it needs --ask")
	}
	if o.help || o.version || o.subcommand != "" || o.script != "" || len(o.args) > 0 {
		return nil
	}
	return errors.New("no command given; try: srt --help")
}
