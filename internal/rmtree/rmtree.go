// Package rmtree removes trees that somebody made who wants that to fail: deeper
// than a process may have descriptors, with directories closed to their own user,
// or changed meanwhile.
package rmtree
