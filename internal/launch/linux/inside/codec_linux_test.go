package inside

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSpecRoundTrip(t *testing.T) {
	s := &Spec{
		Plan:      Plan{{Kind: OpPin, Path: "/a\xff\n", Symlink: true, Dev: 1 << 40, Ino: ^uint64(0)}, {Kind: OpBase, Path: "/", Write: true, Dir: true, Nested: true}},
		Filter:    FilterOptions{UnixSockets: true, Guard: true, Direct: true, HostPorts: true, Unguarded: true},
		Names:     []GuardedName{{Dir: "/d", Name: "n", Fold: true, Rule: "r", Cure: "c", Target: "/d/n/x", Dev: 7, Ino: 8, Exists: true}},
		Standing:  "\x03\x00\xff",
		Concealed: []ConcealedPath{{Path: "/s\xff", Link: "../t"}},
		Creatable: []CreatablePath{{Path: "/p/q/r", Parent: "/p", First: "q"}},
		HostPorts: []int{5432}, Published: []int{3000, 8080},
		Sockets: []SocketRule{{Path: "/run", Pattern: "*.sock"}},
		Path:    "prog", Args: []string{"prog", "", "a b"}, Env: []string{"A=\x80"}, Dir: "/w", Home: "/h", Ports: []int{3128, 1080}, Private: "/t", NullFD: 7,
		Landlock: &LandlockSpec{
			States: []PathState{{Path: "/", Read: true, Missing: true, Rule: "r", Cure: "c", ReadRule: "q", Why: "w"}}, Pins: []string{"/p"},
			Forwards: []Forward{{Port: 3128, Real: 40000}}, LocalBinding: true,
		},
		Repositories: true,
		Limits:       []ResourceLimit{{Resource: 7, Soft: 1 << 40, Hard: ^uint64(0)}},
	}
	got, err := decodeSpec(s.encode())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(s, got); diff != "" {
		t.Errorf("spec changed on the way (-sent +received):\n%s", diff)
	}
}

func FuzzDecodeSpec(f *testing.F) {
	f.Add((&Spec{Args: []string{"a"}, Plan: Plan{{Kind: OpBind, Path: "/x"}}}).encode())
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01})
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := decodeSpec(data)
		if err != nil {
			return
		}
		again, err := decodeSpec(s.encode())
		if err != nil {
			t.Fatalf("an accepted spec does not decode after encoding: %v", err)
		}
		if diff := cmp.Diff(s, again); diff != "" {
			t.Errorf("spec changed (-first +second):\n%s", diff)
		}
	})
}
