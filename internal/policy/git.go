package policy

import (
	"bytes"
	"path"
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
func (r *resolver) protectRepository(root string) error {
	dotGit := child(root, ".git")
	info, err := r.fs.Lstat(dotGit)
	if err != nil {
		if !absent(err) {
			return nil
		}
		if entries, err := r.fs.ReadDir(root); err == nil && looksBare(entries) {
			return r.protectGitDir(root)
		}
		return nil
	}
	l, err := r.land(dotGit, true)
	if err != nil || l.done() {
		return r.denyWrite(dotGit, builtIn(".git"), false)
	}
	r.pinLinks(l.links)
	switch {
	case l.info.Kind == Dir:
		return r.protectGitDir(l.path)
	case info.Kind == File:
		if err := r.denyWrite(dotGit, builtIn(".git"), false); err != nil {
			return err
		}
		return r.protectPointed(dotGit)
	}
	return r.denyWrite(dotGit, builtIn(".git"), false)
}

// protectNestedRepository is for a .git found by the search. A pointer file is
// left alone: git rewrites those of submodules.
func (r *resolver) protectNestedRepository(dotGit string) error {
	l, err := r.land(dotGit, true)
	if err != nil || l.done() || l.info.Kind != Dir {
		return nil //nolint:nilerr // not a repository
	}
	r.pinLinks(l.links)
	if _, err := r.fs.Lstat(child(l.path, "HEAD")); err != nil {
		return nil //nolint:nilerr // not a repository
	}
	return r.protectGitDir(l.path)
}

// protectGitDir protects one git directory, existing names or not.
func (r *resolver) protectGitDir(dir string) error {
	names := []string{"hooks", "commondir"}
	if !r.in.Config.Filesystem.AllowGitConfig {
		names = append(names, "config", "config.worktree")
	}
	for _, name := range names {
		rule := builtIn(".git/" + name)
		if strings.HasPrefix(name, "config") {
			rule.Cure = "set filesystem.allowGitConfig to true"
		}
		if err := r.denyWrite(child(dir, name), rule, true); err != nil {
			return err
		}
	}
	if err := r.protectWorktrees(child(dir, "worktrees")); err != nil {
		return err
	}
	return r.protectModules(child(dir, "modules"), 0)
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
		for _, name := range []string{"commondir", "config.worktree"} {
			if err := r.denyWrite(child(child(dir, ent.Name), name), builtIn(".git/worktrees/*/"+name), true); err != nil {
				return err
			}
		}
	}
	return nil
}

// protectModules protects the git directories of submodules, whose names may
// hold slashes and thus be any number of directories deep.
func (r *resolver) protectModules(dir string, depth int) error {
	if err := r.stopped(); err != nil || depth > maxModules {
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
		if r.looksLikeGitDir(sub) {
			err = r.protectGitDir(sub)
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
	return r.denyWrite(dir, builtIn(baseOf(dir)), false)
}

func (r *resolver) looksLikeGitDir(dir string) bool {
	for _, name := range []string{"HEAD", "config", "hooks", "objects"} {
		if _, err := r.fs.Lstat(child(dir, name)); err == nil {
			return true
		}
	}
	return false
}

// looksBare reports whether a directory is a repository without a work tree.
func looksBare(entries []Entry) bool {
	var head, objects, refs bool
	for _, e := range entries {
		head = head || e.Name == "HEAD"
		objects = objects || e.Name == "objects" && e.Kind == Dir
		refs = refs || e.Name == "refs" && e.Kind == Dir
	}
	return head && objects && refs
}

// protectPointed protects the git directory that a .git file names, and the
// common directory that that one names.
func (r *resolver) protectPointed(pointer string) error {
	data, err := r.fs.ReadFile(pointer, maxPointer)
	if err != nil {
		return nil //nolint:nilerr // the file itself is denied; git cannot follow it either
	}
	target, ok := bytes.CutPrefix(data, []byte("gitdir: "))
	if !ok {
		return nil
	}
	for _, dir := range pointed(parentOf(pointer), target) {
		if err := r.protectNamedGitDir(dir); err != nil {
			return err
		}
		if err := r.protectCommon(dir); err != nil {
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
// aim a deny anywhere.
func (r *resolver) protectNamedGitDir(dir string) error {
	l, err := r.land(dir, true)
	switch {
	case err != nil:
		return nil //nolint:nilerr // leads nowhere
	case l.closed != "", l.first != "":
		return r.denyWrite(dir, builtIn("git directory"), false)
	case l.fileInWay || l.info.Kind != Dir || !r.looksLikeGitDir(l.path):
		return nil
	}
	r.pinLinks(l.links)
	return r.protectGitDir(l.path)
}

func (r *resolver) protectCommon(dir string) error {
	file := child(dir, "commondir")
	info, err := r.fs.Lstat(file)
	if err != nil {
		return nil //nolint:nilerr // the git directory is its own common one
	}
	data, err := r.fs.ReadFile(file, maxPointer)
	if err != nil {
		if info.Kind == File {
			return &Error{Code: "git_metadata_unreadable", Setting: "built-in protection", Entry: file, Reason: "it says where hooks and configuration are, and cannot be read", Err: err}
		}
		return nil
	}
	for _, common := range pointed(dir, data) {
		if err := r.protectNamedGitDir(common); err != nil {
			return err
		}
	}
	return nil
}
