package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/srt-sandbox/srt/config"
)

// stuckFS is a file system in user space, see <linux/fuse.h>, with as much of one
// as making a repository takes. It keeps everything in memory, and stops
// answering once somebody looks for the name "stop".
type stuckFS struct {
	fd    int
	nodes []*stuckNode
	stuck chan struct{} // closed at the first request without an answer
	once  sync.Once
	stop  bool
}

type stuckNode struct {
	mode    uint32
	entries map[string]uint64
}

// mountStuck mounts one. At the end of the test whoever waits for it gets an error.
func mountStuck(t *testing.T, dir string) *stuckFS {
	t.Helper()
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Skipf("opening /dev/fuse: %v", err)
	}
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other", fd)
	if err := unix.Mount("stuck", dir, "fuse", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		unix.Close(fd)
		t.Skipf("mounting: %v", err)
	}
	f := &stuckFS{fd: fd, stuck: make(chan struct{})}
	f.add(unix.S_IFDIR | 0o755)
	t.Cleanup(func() {
		_ = unix.Unmount(dir, unix.MNT_DETACH|unix.MNT_FORCE)
		unix.Close(fd)
	})
	go f.serve()
	return f
}

func (f *stuckFS) add(mode uint32) uint64 {
	f.nodes = append(f.nodes, &stuckNode{mode: mode, entries: map[string]uint64{}})
	return uint64(len(f.nodes))
}

// Operations.
const (
	fuseLookup = 1 + iota
	fuseForget
	fuseGetattr
	fuseSetattr
	fuseMknod      = 8
	fuseMkdir      = 9
	fuseOpen       = 14
	fuseWrite      = 16
	fuseRelease    = 18
	fuseFlush      = 25
	fuseInit       = 26
	fuseOpendir    = 27
	fuseReaddir    = 28
	fuseReleasedir = 29
	fuseInterrupt  = 36
	fuseBatch      = 42
)

func (f *stuckFS) serve() {
	buf := make([]byte, 1<<20)
	for {
		n, err := unix.Read(f.fd, buf)
		if err == unix.EINTR || err == unix.ENOENT {
			continue
		}
		if err != nil {
			return // unmounted
		}
		const header = 40
		op, unique, node := binary.LittleEndian.Uint32(buf[4:]), binary.LittleEndian.Uint64(buf[8:]), binary.LittleEndian.Uint64(buf[16:])
		if op == fuseForget || op == fuseBatch || op == fuseInterrupt {
			continue // take no answer
		}
		if f.stop {
			f.once.Do(func() { close(f.stuck) })
			continue
		}
		body, e := f.answer(op, node, buf[header:n])
		answer := binary.LittleEndian.AppendUint32(nil, uint32(16+len(body)))
		answer = binary.LittleEndian.AppendUint32(answer, uint32(-int32(e)))
		_, _ = unix.Write(f.fd, append(binary.LittleEndian.AppendUint64(answer, unique), body...))
	}
}

func (f *stuckFS) answer(op uint32, node uint64, in []byte) ([]byte, unix.Errno) {
	at := f.nodes[max(node, 1)-1] // the first request is about none
	switch op {
	case fuseInit:
		const major, minor = 7, 31
		return words(major, minor, 0, 0, 0, 1<<16, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0), 0
	case fuseLookup:
		id, ok := at.entries[text(in)]
		f.stop = f.stop || text(in) == "stop"
		if !ok {
			return nil, unix.ENOENT
		}
		return f.entry(id), 0
	case fuseGetattr, fuseSetattr:
		return append(words(0, 0, 0, 0), f.attributes(node)...), 0
	case fuseMknod:
		id := f.add(binary.LittleEndian.Uint32(in))
		at.entries[text(in[16:])] = id
		return f.entry(id), 0
	case fuseMkdir:
		id := f.add(binary.LittleEndian.Uint32(in) | unix.S_IFDIR)
		at.entries[text(in[8:])] = id
		return f.entry(id), 0
	case fuseOpen, fuseOpendir:
		return words(0, 0, 0, 0), 0
	case fuseWrite:
		return words(binary.LittleEndian.Uint32(in[16:]), 0), 0
	case fuseRelease, fuseReleasedir, fuseFlush, fuseReaddir:
		return nil, 0
	}
	return nil, unix.ENOSYS
}

func text(in []byte) string {
	name, _, _ := bytes.Cut(in, []byte{0})
	return string(name)
}

func words(all ...uint32) (b []byte) {
	for _, w := range all {
		b = binary.LittleEndian.AppendUint32(b, w)
	}
	return b
}

// attributes is struct fuse_attr.
func (f *stuckFS) attributes(node uint64) []byte {
	b := words(uint32(node), 0)
	b = append(b, make([]byte, 52)...) // sizes and times
	return append(b, words(f.nodes[node-1].mode, 1, 0, 0, 0, 4096, 0)...)
}

// entry is struct fuse_entry_out. Nothing may be remembered.
func (f *stuckFS) entry(id uint64) []byte {
	return append(words(uint32(id), 0, 0, 0, 0, 0, 0, 0, 0, 0), f.attributes(id)...)
}

// makeStuck makes a repository on a file system that then stops to answer.
const makeStuck = `mkdir -p m/d/objects m/d/refs && echo x > m/d/HEAD && mkdir own && cd own && git init -q . ; test -e ../m/stop; exit 3`

// A look at new repositories ends, when a signal asks for it and when nobody
// answers, and what was not looked at is said.
func TestLookAtStuckRepository(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can mount")
	}
	for _, backend := range slices.Concat(mountBackends, []string{config.BackendLandlock}) {
		for _, c := range []struct {
			name   string
			signal unix.Signal
			said   string
		}{{"interrupted", unix.SIGINT, "not looked at: SIGINT ended the look"}, {"left alone", 0, "does not answer; look at its hooks"}} {
			if c.signal == 0 && backend != config.BackendNative {
				continue // takes as long as anybody is waited for
			}
			t.Run(backend+"/"+c.name, func(t *testing.T) {
				t.Parallel()
				needBackend(t, backend)
				s := newSandboxed(t, 0, repositorySettings(backend, false))
				if err := os.Mkdir(s.dir+"/m", 0o755); err != nil {
					t.Fatal(err)
				}
				f := mountStuck(t, s.dir+"/m")
				var said bytes.Buffer
				cmd := s.command("--violations", "always", "-c", makeStuck)
				cmd.Stderr = &said
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				ended := make(chan error, 1)
				go func() { ended <- cmd.Wait() }()
				select {
				case <-f.stuck:
				case err := <-ended:
					t.Fatalf("nobody asked the file system: %v: %s", err, said.String())
				}
				if c.signal != 0 {
					_ = cmd.Process.Signal(c.signal)
				}
				<-ended
				if cmd.ProcessState.ExitCode() != 3 || !strings.Contains(said.String(), "/m/d (") || !strings.Contains(said.String(), c.said) ||
					!strings.Contains(said.String(), "is left behind") {
					t.Errorf("status %v: %s", cmd.ProcessState, said.String())
				}
			})
		}
	}
}
