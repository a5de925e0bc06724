package linux

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/srt-sandbox/srt/internal/launch/linux/inside"
	"github.com/srt-sandbox/srt/internal/policy"
)

func TestPlanText(t *testing.T) {
	p := &policy.Policy{
		Places: []policy.Place{
			{Path: "/", Kind: policy.Dir},
			{Path: "/dev/null", Kind: policy.File},
			{Path: "/h", Kind: policy.Dir, View: policy.Hidden},
			{Path: "/h/keep", Kind: policy.Dir, View: policy.Host},
			{Path: "/w", Kind: policy.Dir, Write: true},
			{Path: "/w/.env", Kind: policy.File, View: policy.Masked},
			{Path: "/w/.git/hooks", Kind: policy.Dir},
			{Path: "/w/a b\n", Kind: policy.Dir, View: policy.Hidden, Scratch: true},
			{Path: "/x", Kind: policy.Dir, View: policy.Hidden},
		},
		Pins: []policy.Pin{{Path: "/w/.git"}, {Path: "/w/link", Symlink: true}},
	}
	want := `pin dir /w/.git
pin link /w/link
base ro /
hide dir /h
bind ro /h/keep
bind rw /w
hide file /w/.env
bind ro /w/.git/hooks
hide dir scratch "/w/a b\n"
hide dir /x
`
	plan := NewPlan(p)
	if diff := cmp.Diff(want, plan.String()); diff != "" {
		t.Errorf("plan (-want +got):\n%s", diff)
	}
	if !plan[3].Nested {
		t.Error("the hidden directory with a place beneath it is not marked as nested")
	}
	if plan[len(plan)-1].Nested {
		t.Error("a hidden directory without places beneath it is marked as nested")
	}
}

func TestBeneath(t *testing.T) {
	for _, c := range []struct {
		dir, p string
		want   bool
	}{
		{"/", "/a", true}, {"/", "/", false}, {"/a", "/a/b", true}, {"/a", "/a", false}, {"/a", "/ab", false}, {"/a/b", "/a", false},
	} {
		if got := inside.Beneath(c.dir, c.p); got != c.want {
			t.Errorf("inside.Beneath(%q, %q) = %v", c.dir, c.p, got)
		}
	}
}
