package policy

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/srt-sandbox/srt/config"
)

// defaultScanTimeout bounds every look at the file system together.
const defaultScanTimeout = 10 * time.Second

// resolver collects, for each real path, what the lists say about it.
type resolver struct {
	ctx     context.Context
	timeout time.Duration
	in      Input
	fs      *cachedFS
	nodes   map[string]*mark
	links   map[string]bool // links to pin
	// readLinks are those on the way to something that a read deny names.
	readLinks map[string]Rule
	// unread are the missing paths of read denies, unreadAllowed those that an
	// allowRead entry names.
	unread        map[string]unread
	unreadAllowed map[string]bool
	absents       []Absent
	kept          []Kept
	out           *Policy
	// roots are the write roots in which protected names are looked for.
	roots []string
	// carved are the places that entries show again inside hidden directories.
	carved []string
	// hiding are the names that entries hide.
	hiding []hiding
	// repositories are the git directories protected so far.
	repositories map[checkout]bool
	// configs are the configuration files of repositories looked at so far.
	configs map[checkout]bool
	// searched are the directories in which protected names were looked for.
	searched map[string]visit
	// states is what the marks come to, by path.
	states map[string]state
}

// mark is what the lists say about one real path.
type mark struct {
	path string
	info Info

	deny, locked, allowRead bool
	root                    bool
	// weak roots are srt's own conveniences: they do not show what a read deny hides.
	weak      bool
	writeDeny bool
	// own files are srt's; they are readable under every deny.
	own bool

	denyRule, allowRule, rootRule, writeDenyRule Rule
}

// builtInSetting names, in rules, what no list of the settings says.
const builtInSetting = "built-in"

func builtIn(name string) Rule { return Rule{Setting: builtInSetting, Entry: name} }

// Resolve turns settings into a policy for one working directory. The error is
// an [*Error] for an entry that cannot be enforced.
func Resolve(ctx context.Context, in Input) (*Policy, error) {
	r, cancel := newResolver(ctx, in)
	defer cancel()
	r.maskFiles()
	if in.Config.Filesystem.Disabled {
		return r.disabled()
	}
	// What may be written and shown again comes first: it decides which links
	// are trusted, and how far a pattern must look.
	steps := []func() error{r.writeRoots, r.readAllows, r.readDenies, r.credentialDenies, r.ownDenies, r.ownFiles, r.writeDenies, r.mandatoryDenies, r.socketRules}
	for _, step := range steps {
		err := step()
		if err == nil {
			err = r.stopped(r.ctx.Err())
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err != nil {
			return nil, err
		}
	}
	return r.finish(), nil
}

// newResolver bounds every look at the file system by the returned function's end.
func newResolver(ctx context.Context, in Input) (*resolver, context.CancelFunc) {
	timeout := cmp.Or(in.ScanTimeout, defaultScanTimeout)
	bounded, cancel := context.WithTimeout(ctx, timeout)
	r := &resolver{ctx: bounded, timeout: timeout, in: in, fs: newCachedFS(in.FS), nodes: map[string]*mark{},
		links: map[string]bool{}, readLinks: map[string]Rule{}, unread: map[string]unread{}, unreadAllowed: map[string]bool{}, repositories: map[checkout]bool{}, configs: map[checkout]bool{}, out: &Policy{fs: in.FS}}
	r.in.Home, r.in.Cwd, r.in.Private = r.realDir(in.Home), r.realDir(in.Cwd), r.realDir(in.Private)
	return r, cancel
}

// realDir resolves the links on the way to a directory that the caller, and no
// command, has chosen.
func (r *resolver) realDir(dir string) string {
	if dir == "" {
		return ""
	}
	l, err := r.land(dir, true)
	if err != nil || l.info.Kind != Dir {
		return dir
	}
	return l.path
}

// disabled is the policy without file rules.
func (r *resolver) disabled() (*Policy, error) {
	if err := r.socketRules(); err != nil {
		return nil, err
	}
	p := r.out
	p.Disabled = true
	p.Places = []Place{{Path: "/", Kind: Dir, Write: true, WriteRule: Rule{Setting: "filesystem.disabled"}}}
	p.index()
	return p, nil
}

// at returns the mark of a real path.
func (r *resolver) at(l landing) *mark {
	n, ok := r.nodes[l.path]
	if !ok {
		n = &mark{path: l.path, info: l.info}
		r.nodes[l.path] = n
	}
	return n
}

// warn says something about an entry, once.
func (r *resolver) warn(rule Rule, message string) {
	w := Warning{Setting: rule.Setting, Entry: rule.Entry, Message: message}
	for _, said := range r.out.Warnings {
		if said == w {
			return
		}
	}
	r.out.Warnings = append(r.out.Warnings, w)
}

// items lists the entries of a list with their places in the settings.
func items(setting, cure string, entries []config.PathEntry) []item {
	all := make([]item, 0, len(entries))
	for i, e := range entries {
		rule := Rule{Setting: fmt.Sprintf("%s[%d]", setting, i), Entry: e.Path}
		rule.Cure = strings.ReplaceAll(cure, "ENTRY", fmt.Sprintf("%q", e.Path))
		all = append(all, item{PathEntry: e, rule: rule})
	}
	return all
}

// pinLinks keeps the symbolic links on the way to a protected place.
func (r *resolver) pinLinks(links []string) {
	for _, l := range links {
		r.links[l] = true
	}
}

// inRoot reports whether a command of this run could change the real path p,
// denies left aside.
func (r *resolver) inRoot(p string) bool {
	for ; ; p = parentOf(p) {
		if n, ok := r.nodes[p]; ok && n.root {
			return true
		}
		if p == "/" {
			return false
		}
	}
}

// forbid records a name that must not appear.
func (r *resolver) forbid(l landing, rule Rule, fold, read bool) {
	info, err := r.fs.Lstat(l.parent)
	if err != nil {
		return
	}
	r.absents = append(r.absents, Absent{Parent: l.parent, Name: l.first, Fold: fold, Full: l.path, Dev: info.Dev, Ino: info.Ino, Read: read, Rule: rule})
}

// warnFresh says that an entry names what the sandbox replaces anyway.
func (r *resolver) warnFresh(rule Rule) {
	if rule.Setting != builtInSetting {
		r.warn(rule, "has no effect: every sandbox has a /dev and a /proc of its own")
	}
}
