package protected

import (
	"encoding/binary"
	"fmt"
	"strings"
	"sync"
)

// Directories are the directories beneath the protected ones that were there when
// a run started, as deep as existing names are searched for. What a run makes
// itself is not among them and free.
//
// A directory is known twice. By its path: a command may remove or move it and
// put another in its place. And by its identity: a command may move it, and the
// host may show it at a second path, or ignore the case of names.
//
// Only hashes are kept, because there may be some ten thousand of them. A path
// that was added is always found. Another one that has the same hash is taken for
// it, which refuses a name too many and never one too few.
type Directories struct {
	search int // mandatoryDenySearchDepth
	keys   []uint64
	once   sync.Once
	depths map[uint64]int // by hash
}

// Identity tells a directory from every other, whatever path leads to it. The
// number alone does not: file systems use those of removed directories again.
// The zero value is an unknown identity.
type Identity struct {
	Dev, Ino uint64
	// Born is when it was made, in nanoseconds; zero where the file system does not
	// say.
	Born int64
}

// Ban says why a name must not appear.
type Ban struct {
	// Entry is the protected name as in the table, Path the path that it has here.
	Entry, Path string
	// Cure is the setting that would allow it.
	Cure string
}

// NewDirectories returns an empty collection for a search of some depth.
func NewDirectories(search int) *Directories { return &Directories{search: search} }

// Add records a directory and the number of directories between it and what lies
// directly in the nearest protected one; such an entry has depth 1. It must not be
// called after the first question.
func (d *Directories) Add(path string, id Identity, depth int) {
	d.keys = append(d.keys, hashPath(path)|uint64(depth))
	if id != (Identity{}) {
		d.keys = append(d.keys, hashIdentity(id)|uint64(depth))
	}
}

// depthBits of a key hold the depth, the others the hash.
const depthBits = 15

func (d *Directories) depth(hash uint64) (int, bool) {
	d.once.Do(func() {
		d.depths = make(map[uint64]int, len(d.keys))
		for _, k := range d.keys {
			hash, depth := k&^depthBits, int(k&depthBits)
			if old, ok := d.depths[hash]; !ok || depth < old {
				d.depths[hash] = depth
			}
		}
	})
	depth, ok := d.depths[hash]
	return depth, ok
}

// Stood reports whether there was a directory at a path.
func (d *Directories) Stood(path string) bool {
	if d == nil {
		return false
	}
	_, ok := d.depth(hashPath(path))
	return ok
}

// Forbids judges the making of a name in a directory.
func (d *Directories) Forbids(dir string, id Identity, name string) (Ban, bool) {
	if d == nil || !Candidate(name) {
		return Ban{}, false
	}
	depth, ok := d.depth(hashPath(dir))
	if other, known := d.depth(hashIdentity(id)); known && (!ok || other < depth) {
		depth, ok = other, true
	}
	if !ok {
		return Ban{}, false
	}
	path, spelt := join(dir, name), spell(name)
	if entry, ok := spelt.file(); ok && depth < d.search {
		return Ban{Entry: entry, Path: path, Cure: cure(depth)}, true
	}
	for _, entry := range below {
		first, rest, _ := strings.Cut(entry, "/")
		switch {
		case spelt.is(first) && depth+1 < d.search:
			// What lies in it is judged by itself where the directory was there.
			if rest == "" || !d.Stood(path) {
				return Ban{Entry: entry, Path: strings.TrimSuffix(path+"/"+rest, "/"), Cure: cure(depth + 1)}, true
			}
		case rest != "" && spelt.is(rest) && Same(first, lastOf(dir)) && depth < d.search:
			return Ban{Entry: entry, Path: path, Cure: cure(depth)}, true
		}
	}
	return Ban{}, false
}

// ForbidsLink judges the making of a symbolic link: in the place of a directory
// it would let names appear in there that nobody looks at.
func (d *Directories) ForbidsLink(path string) (Ban, bool) {
	if d == nil {
		return Ban{}, false
	}
	depth, ok := d.depth(hashPath(path))
	return Ban{Entry: "a link in the place of a directory", Path: path, Cure: cure(depth)}, ok
}

func cure(search int) string {
	return fmt.Sprintf("set mandatoryDenySearchDepth to %d, which makes existing protected names as deep as this one writable, too", search)
}

func join(dir, name string) string { return strings.TrimSuffix(dir, "/") + "/" + name }

func lastOf(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

// Encode returns a form for [DecodeDirectories]; empty if there is nothing to keep.
func (d *Directories) Encode() string {
	if d == nil || len(d.keys) == 0 {
		return ""
	}
	b := make([]byte, 0, 1+8*len(d.keys))
	b = append(b, byte(d.search))
	for _, k := range d.keys {
		b = binary.LittleEndian.AppendUint64(b, k)
	}
	return string(b)
}

// DecodeDirectories is the reverse of Encode.
func DecodeDirectories(s string) (*Directories, bool) {
	if s == "" {
		return nil, true
	}
	if len(s)%8 != 1 {
		return nil, false
	}
	d := &Directories{search: int(s[0]), keys: make([]uint64, len(s)/8)}
	for i := range d.keys {
		d.keys[i] = binary.LittleEndian.Uint64([]byte(s[1+8*i : 9+8*i]))
	}
	return d, true
}

// The FNV-1a hash. Whoever finds two names with one hash gains nothing.
const (
	hashStart = 14695981039346656037
	hashPrime = 1099511628211
)

// hashPath ignores the case of ASCII letters, as some file systems do.
func hashPath(path string) uint64 {
	h := uint64(hashStart)
	for i := range len(path) {
		c := path[i]
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		h = (h ^ uint64(c)) * hashPrime
	}
	return h &^ depthBits
}

// hashIdentity cannot meet hashPath by design: no path begins with this byte.
func hashIdentity(id Identity) uint64 {
	h := uint64(hashStart)
	h = (h ^ 1) * hashPrime
	for _, v := range [...]uint64{id.Dev, id.Ino, uint64(id.Born)} {
		for range 8 {
			h = (h ^ v&0xff) * hashPrime
			v >>= 8
		}
	}
	return h &^ depthBits
}
