package gitconfig

import "strings"

// Format writes entries as a file that Parse, and git, read as the same ones.
// What no file can say, such as a name outside of any section, is left out.
func Format(entries []Entry) []byte {
	var b strings.Builder
	var head *Entry
	for _, e := range entries {
		if e.Section == "" || strings.ContainsAny(e.Subsection, "\n\x00") || strings.Contains(e.Value, "\x00") {
			continue
		}
		if head == nil || head.Section != e.Section || head.Subsection != e.Subsection {
			writeHeader(&b, e)
			head = &e
		}
		b.WriteString("\t" + e.Name)
		if !e.Bare {
			b.WriteString(" = " + quote(e.Value))
		}
		b.WriteByte('\n')
	}
	return []byte(b.String())
}

func writeHeader(b *strings.Builder, e Entry) {
	b.WriteString("[" + e.Section)
	if e.Subsection != "" {
		b.WriteString(` "` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(e.Subsection) + `"`)
	}
	b.WriteString("]\n")
}

func quote(value string) string {
	escaped := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\t", `\t`, "\b", `\b`).Replace(value)
	if strings.ContainsAny(value, "#;\r") || strings.TrimSpace(value) != value {
		return `"` + escaped + `"`
	}
	return escaped
}
