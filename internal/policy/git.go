package policy

import (
	"bytes"
	"errors"
	"path"
	"slices"
	"strings"
)

// Hooks and configuration of a repository run programs when somebody uses git
// in it. The functions of this file find every place that git would read them
// from, and protect it. The rest of a repository stays writable, so that
// commits work.

// maxPointer is more than any path; git refuses larger pointer files too.
const maxPointer = 1 << 20

// maxModules bounds how deep submodules nest.
const maxModules = 16

// protectRepository protects the repository at a root: its .git directory, what
// a .git file points to, or the root itself if it is a bare repository. Without
// a repository nothing is denied, so that one can be made.
func (r *resolver) protectRepository(root string, listing []Entry) error {
	dotGit := child(root, ".git")
	if looksBare(listing) {
		if err := r.protectGitDir(root, ""); err != nil {
			return err
		}
	}
	if !r.fs.exists(dotGit) {
		return nil
	}
	l, err := r.land(dotGit, true)
	if err == nil && !l.done() && l.info.Kind == Dir {
		r.pinLinks(l.links)
		return r.protectGitDir(l.path, root)
	}
	if err := r.denyWrite(dotGit, denial{rule: builtIn(".git"), found: true}); err != nil {
		return err
	}
	return r.protectPointed(dotGit, root, true)
}

// protectNestedRepository is for a .git found by the search. A pointer file is
// left alone: git rewrites those of submodules.
func (r *resolver) protectNestedRepository(dotGit string) error {
	l, err := r.land(dotGit, true)
	switch {
	case err != nil || l.done():
		return nil //nolint:nilerr // not a repository
	case l.info.Kind == File:
		return r.protectPointed(dotGit, parentOf(dotGit), false)
	case l.info.Kind != Dir || !r.fs.exists(child(l.path, "HEAD")):
		return nil
	}
	r.pinLinks(l.links)
	return r.protectGitDir(l.path, parentOf(dotGit))
}

// checkout is a git directory with a directory that is checked out from it.
type checkout struct{ dir, worktree string }

// protectGitDir protects one git directory, existing names or not. worktree is
// the directory that is checked out from it, where that is known.
func (r *resolver) protectGitDir(dir, worktree string) error {
	key := checkout{dir, worktree}
	if r.repositories[key] {
		return nil
	}
	known := r.repositories[checkout{dir: dir}]
	r.repositories[key], r.repositories[checkout{dir: dir}] = true, true
	// What the configuration names depends on the work tree.
	if err := r.protectConfigured(dir, worktree); err != nil {
		return err
	}
	if err := r.protectCommon(dir, worktree); err != nil || known {
		return err
	}
	return r.protectGitNames(dir)
}

func (r *resolver) protectGitNames(dir string) error {
	if err := r.stopped(r.ctx.Err()); err != nil {
		return err
	}
	names := []string{"hooks", "commondir"}
	if !r.in.Config.Filesystem.AllowGitConfig {
		names = append(names, "config", "config.worktree")
	}
	for _, name := range names {
		if err := r.denyWrite(child(dir, name), gitDenial(name)); err != nil {
			return err
		}
	}
	r.forbidLocks(dir)
	if err := r.protectWorktrees(child(dir, "worktrees")); err != nil {
		return err
	}
	return r.protectModules(child(dir, "modules"), 0)
}

// forbidLocks keeps the command from the files that git outside renames to the
// configuration when it has written them. They come and go while sandboxes are
// built, so that one which is there counts as missing, too. Without the guard a
// missing name can only be cleared away at the end, and this one may be git's.
func (r *resolver) forbidLocks(dir string) {
	if r.in.Config.Filesystem.AllowGitConfig || r.in.Config.Unguarded() {
		return
	}
	for _, name := range []string{"config.lock", "config.worktree.lock"} {
		at := landing{path: child(dir, name), parent: dir, first: name}
		r.forbid(at, gitDenial(name).rule, true, false)
	}
}

func gitDenial(name string) denial {
	rule := builtIn(".git/" + name)
	if strings.HasPrefix(name, "config") {
		rule.Cure = "set filesystem.allowGitConfig to true"
	}
	return denial{rule: rule, fold: true, found: true}
}

// protectWorktrees keeps existing worktrees from being pointed at other hooks
// and configuration. New ones can be added.
func (r *resolver) protectWorktrees(dir string) error {
	entries, err := r.fs.ReadDir(dir)
	if err != nil {
		return r.unreadableMetadata(dir, err)
	}
	for _, ent := range entries {
		if ent.Kind != Dir {
			continue
		}
		names := []string{"commondir"}
		if !r.in.Config.Filesystem.AllowGitConfig {
			names = append(names, "config.worktree")
		}
		for _, name := range names {
			if err := r.denyWrite(child(child(dir, ent.Name), name), gitDenial(name)); err != nil {
				return err
			}
		}
		if err := r.keepIncomplete(child(dir, ent.Name)); err != nil {
			return err
		}
	}
	return nil
}

// keepIncomplete keeps a protected directory that git does not take for a
// repository from becoming one: an earlier command may have made what is in it, and
// what is protected is nothing that the look at new repositories could take away.
func (r *resolver) keepIncomplete(dir string) error {
	missing := slices.DeleteFunc([]string{"objects", "refs"}, func(name string) bool { return r.holdsAny(dir, name) })
	if r.holdsAny(dir, "commondir") {
		missing = nil
	}
	if info, err := r.fs.Lstat(child(dir, "HEAD")); err != nil || info.Kind == Dir {
		missing = append(missing, "HEAD")
	}
	for _, name := range missing {
		if err := r.denyWrite(child(dir, name), denial{rule: builtIn("incomplete git directory"), fold: true, found: true}); err != nil {
			return err
		}
	}
	return nil
}

// protectModules protects the git directories of submodules, whose names may
// hold slashes and thus be any number of directories deep.
func (r *resolver) protectModules(dir string, depth int) error {
	if err := r.stopped(r.ctx.Err()); err != nil || depth > maxModules {
		return err
	}
	entries, err := r.fs.ReadDir(dir)
	if err != nil {
		return r.unreadableMetadata(dir, err)
	}
	for _, ent := range entries {
		if ent.Kind != Dir {
			continue
		}
		sub := child(dir, ent.Name)
		if r.holdsAny(sub, "HEAD", "config", "hooks", "objects") {
			err = errors.Join(r.protectGitDir(sub, ""), r.keepIncomplete(sub))
		} else {
			err = r.protectModules(sub, depth+1)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *resolver) unreadableMetadata(dir string, err error) error {
	if absent(err) {
		return nil
	}
	return r.denyWrite(dir, denial{rule: builtIn(".git/" + baseOf(dir)), found: true})
}

func (r *resolver) holdsAny(dir string, names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return r.fs.exists(child(dir, name)) })
}

// looksBare reports whether a directory is a repository without a work tree.
func looksBare(entries []Entry) bool {
	var head, objects, refs bool
	for _, e := range entries {
		dir := e.Kind == Dir || e.Kind == Symlink
		head = head || e.Name == "HEAD" && e.Kind != Dir
		objects = objects || e.Name == "objects" && dir
		refs = refs || e.Name == "refs" && dir
	}
	return head && objects && refs
}

// protectPointed protects the git directory that a .git file names. With missing
// set, one that does not exist is protected as well.
func (r *resolver) protectPointed(pointer, worktree string, missing bool) error {
	data, err := r.fs.ReadFile(pointer, maxPointer)
	if err != nil {
		return nil //nolint:nilerr // git cannot follow it either
	}
	target, ok := bytes.CutPrefix(data, []byte("gitdir: "))
	if !ok {
		return nil
	}
	for _, dir := range pointed(parentOf(pointer), target) {
		if err := r.protectNamedGitDir(dir, worktree, false, missing); err != nil {
			return err
		}
	}
	return nil
}

// pointed resolves the text of a pointer. What ".." means depends on whether
// links before it are followed first; both meanings are protected.
func pointed(base string, text []byte) []string {
	text, _, _ = bytes.Cut(text, []byte{0})
	p := strings.TrimRight(string(text), "\r\n")
	if p == "" {
		return nil
	}
	if !strings.HasPrefix(p, "/") {
		p = base + "/" + p
	}
	if clean := path.Clean(p); clean != p {
		return []string{p, clean}
	}
	return []string{p}
}

// protectNamedGitDir protects a git directory that a file names. A target that
// exists and is no git directory is left alone: the content of a file must not
// aim a deny anywhere. A common directory needs no HEAD.
func (r *resolver) protectNamedGitDir(dir, worktree string, common, missing bool) error {
	l, err := r.land(dir, true)
	switch {
	case err != nil:
		return nil //nolint:nilerr // leads nowhere
	case l.closed != "" || l.first != "":
		if !missing {
			return nil
		}
		return r.denyWrite(dir, denial{rule: builtIn("git directory"), found: true})
	case l.fileInWay || l.info.Kind != Dir || !r.holdsAny(l.path, "HEAD", "objects"):
		return nil
	}
	r.pinLinks(l.links)
	if err := r.protectGitDir(l.path, worktree); err != nil {
		return err
	}
	if common && r.holdsAny(l.path, "objects") && r.holdsAny(l.path, "refs") {
		return nil
	}
	return r.keepIncomplete(l.path)
}

// protectCommon protects the directory that a git directory shares hooks and
// configuration with.
func (r *resolver) protectCommon(dir, worktree string) error {
	file := child(dir, "commondir")
	info, err := r.fs.Lstat(file)
	if err != nil {
		return nil //nolint:nilerr // the git directory is its own common one
	}
	data, err := r.fs.ReadFile(file, maxPointer)
	if err != nil {
		if info.Kind == File {
			return &Error{Code: "git_metadata_unreadable", Setting: builtInSetting, Entry: file, Reason: "it says where hooks and configuration are, and cannot be read; make it readable", Err: err}
		}
		return nil
	}
	for _, common := range pointed(dir, data) {
		if err := r.protectNamedGitDir(common, worktree, true, true); err != nil {
			return err
		}
	}
	return nil
}
