package linux

import (
	"fmt"
	"strings"

	"github.com/srt-sandbox/srt/internal/launch"
)

// reportBlocked passes on what srt-init found in a new repository. These reports
// are few and come last: no noise of the command crowds them out.
func (p *process) reportBlocked(body string) {
	f := strings.Split(body, "\x00")
	if len(f) != 5 {
		return
	}
	p.request.Violation(launch.Violation{Operation: f[0], Path: f[1], Target: f[1], Rule: f[2], Cure: f[3], Outcome: f[4]})
}

// reportUnchecked says that srt-init ended, or gave up, before it had looked at
// all repositories that the command made. The path is that of the first. Whoever
// wants no report of violations hears it, too: git would run what is there.
func (p *process) reportUnchecked() {
	if p.unchecked == "" {
		return
	}
	p.request.Note(fmt.Sprintf("nobody looked at the repositories that the command made, the first of them %q: look at their hooks and configuration before you use git there", p.unchecked))
	p.request.Violation(launch.Violation{
		Operation: "repository", Path: p.unchecked, Target: p.unchecked, Rule: `built-in "new repositories"`,
		Outcome: "not all repositories that the command made could be checked; look at their hooks and configuration before you use git there",
	})
}
