package inside

import (
	"testing"

	"golang.org/x/sys/unix"
)

func testRules() *pathRules {
	return newPathRules(&LandlockSpec{
		States: []PathState{
			{Path: "/", Read: true},
			{Path: "/w", Read: true, Write: true},
			{Path: "/w/deny", Read: true},
			{Path: "/w/secret"},
			{Path: "/h"},
			{Path: "/h/open", Read: true},
		},
		Pins: []string{"/w/pin"},
	}, []CreatablePath{{Path: "/e/new/dir", Parent: "/e", First: "new"}})
}

func TestPathRules(t *testing.T) {
	p := testRules()
	for _, c := range []struct {
		name               string
		read, change, make bool
	}{
		{"/", true, false, false},
		{"/etc/x", true, false, false},
		{"/w", true, true, false}, // a write root stays where it is
		{"/w/a/b", true, true, true},
		{"/w/deny", true, false, false},
		{"/w/deny/x", true, false, false},
		{"/w/secret", false, false, false},
		{"/w/secret/x", false, false, false},
		{"/w/pin", true, true, false},
		{"/w/pin/x", true, true, true},
		{"/w2", true, false, false},
		{"/h/x", false, false, false},
		{"/h/open", true, false, false},
		{"/h/open/x", true, false, false},
		{"/e/new", true, false, true}, // on the way to an allowWrite entry
		{"/e/new/dir", true, true, true},
		{"/e/new/dir/x", true, true, true},
		{"/e/new/other", true, false, false},
		{"/e/other", true, false, false},
	} {
		_, read := p.mayRead(c.name)
		_, change := p.mayChange(c.name)
		_, name := p.mayName(c.name)
		if read != c.read || change != c.change || name != c.make {
			t.Errorf("%s: read %v, change %v, name %v; want %v, %v, %v", c.name, read, change, name, c.read, c.change, c.make)
		}
	}
	for dir, want := range map[string]bool{"/": true, "/w": true, "/w/a": false, "/h": true, "/h/open": false, "/w/deny": false} {
		if p.gap(dir) != want {
			t.Errorf("gap(%s) = %v", dir, !want)
		}
	}
	if !p.hasGaps() || newPathRules(&LandlockSpec{States: []PathState{{Path: "/", Read: true}, {Path: "/w", Read: true, Write: true}}}, nil).hasGaps() {
		t.Error("hasGaps does not tell whether a read is denied")
	}
	later := newPathRules(&LandlockSpec{States: []PathState{{Path: "/", Read: true}, {Path: "/w/later", Missing: true}}}, nil)
	if _, ok := later.mayRead("/w/later"); ok || later.gap("/w") || !later.hasGaps() {
		t.Error("what does not exist yet can be read, or takes rights from what is beside it")
	}
}

func TestForward(t *testing.T) {
	g := &guard{forwards: []Forward{{Port: 3128, Real: 40000}}}
	v4 := func(port int, a ...byte) unix.Sockaddr { return &unix.SockaddrInet4{Port: port, Addr: [4]byte(a)} }
	v6 := func(port int, a [16]byte) unix.Sockaddr { return &unix.SockaddrInet6{Port: port, Addr: a} }
	for _, c := range []struct {
		to   unix.Sockaddr
		want unix.Errno
	}{
		{v4(3128, 127, 0, 0, 1), 0},
		{v4(3129, 127, 0, 0, 1), unix.ECONNREFUSED},
		{v4(40000, 127, 0, 0, 1), unix.ECONNREFUSED},
		{v4(3128, 127, 0, 0, 2), unix.ECONNREFUSED},
		{v4(3128, 0, 0, 0, 0), unix.ECONNREFUSED},
		{v4(3128, 192, 0, 2, 1), unix.ENETUNREACH},
		{v6(3128, [16]byte{10: 0xff, 11: 0xff, 12: 127, 15: 1}), 0},
		{v6(3128, [16]byte{15: 1}), unix.ECONNREFUSED},
		{v6(3128, [16]byte{10: 0xff, 11: 0xff, 12: 192, 14: 2, 15: 1}), unix.ENETUNREACH},
		{v6(3128, [16]byte{0: 0x20, 15: 1}), unix.ENETUNREACH},
	} {
		to, e := g.forward(c.to)
		if e != c.want {
			t.Errorf("connecting to %+v: %v, want %v", c.to, e, c.want)
		}
		if e == 0 {
			if port, _ := portOf(to); port != 40000 {
				t.Errorf("connecting to %+v leads to port %d", c.to, port)
			}
		}
	}
}

func portOf(a unix.Sockaddr) (int, bool) {
	switch a := a.(type) {
	case *unix.SockaddrInet4:
		return a.Port, true
	case *unix.SockaddrInet6:
		return a.Port, true
	}
	return 0, false
}

func FuzzParseSockaddr(f *testing.F) {
	f.Add([]byte{2, 0, 0x0c, 0x38, 127, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0})
	f.Add([]byte{10, 0, 0x0c, 0x38})
	f.Add([]byte{1, 0})
	f.Fuzz(func(t *testing.T, raw []byte) {
		if len(raw) < 2 || len(raw) > maxSockaddr {
			return
		}
		a, e := parseSockaddr(raw)
		if e == 0 && a != nil {
			if port, ok := portOf(a); !ok || port != int(raw[2])<<8|int(raw[3]) {
				t.Errorf("%x became %+v", raw, a)
			}
		}
	})
}
