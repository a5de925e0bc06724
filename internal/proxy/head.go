package proxy

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// field is one header line, kept as it was spelled.
type field struct{ name, value string }

// head is the start line and header of a message. Order, spelling and
// repetition of the fields are kept.
type head struct {
	start  [3]string
	fields []field
}

var (
	errHeadTooLarge = errors.New("message head too large")
	errBadHead      = errors.New("malformed message head")
)

// readHead reads up to the blank line. Lines end in CR LF and nothing else:
// every deviation that parsers disagree about is an error, because two readers
// of one message must see the same thing.
func readHead(r *bufio.Reader) (*head, error) {
	var h head
	for size := 0; ; {
		line, err := r.ReadSlice('\n')
		size += len(line)
		if errors.Is(err, bufio.ErrBufferFull) || size > maxHead {
			return nil, errHeadTooLarge
		}
		if err != nil {
			if size == 0 && errors.Is(err, io.EOF) {
				return nil, io.EOF
			}
			return nil, fmt.Errorf("reading a message head: %w", err)
		}
		text, ok := bytes.CutSuffix(line, []byte("\r\n"))
		if !ok { // control characters, a lone CR among them, are found below
			return nil, errBadHead
		}
		switch {
		case h.start[0] == "":
			if len(text) == 0 {
				return nil, errBadHead
			}
			if err := h.setStart(string(text)); err != nil {
				return nil, err
			}
		case len(text) == 0:
			return &h, nil
		default:
			if err := h.addField(string(text)); err != nil {
				return nil, err
			}
		}
	}
}

// setStart splits the first line at its first two blanks.
func (h *head) setStart(line string) error {
	a, rest, ok := strings.Cut(line, " ")
	b, c, _ := strings.Cut(rest, " ")
	if !ok || a == "" || b == "" || hasControl(line) {
		return errBadHead
	}
	h.start = [3]string{a, b, c}
	return nil
}

// addField parses a header line. Folded lines and blanks before the colon are
// refused, see RFC 9112 section 5.
func (h *head) addField(line string) error {
	name, value, ok := strings.Cut(line, ":")
	if !ok || !isToken(name) {
		return errBadHead
	}
	value = strings.Trim(value, " \t")
	if hasControl(value) {
		return errBadHead
	}
	h.fields = append(h.fields, field{name, value})
	return nil
}

// hasControl finds control characters. Bytes above ASCII are nobody's business.
func hasControl(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < 0x20 && c != '\t' || c == 0x7f {
			return true
		}
	}
	return false
}

// isToken checks the token rule of RFC 9110 section 5.6.2.
func isToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		alnum := c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !alnum && !strings.ContainsRune("!#$%&'*+-.^_`|~", rune(c)) {
			return false
		}
	}
	return s != ""
}

// values returns the values of every line with this name.
func (h *head) values(name string) []string {
	var all []string
	for _, f := range h.fields {
		if strings.EqualFold(f.name, name) {
			all = append(all, f.value)
		}
	}
	return all
}

// mentions reports whether a comma-separated header holds a word.
func (h *head) mentions(name, word string) bool {
	for _, v := range h.values(name) {
		for part := range strings.SplitSeq(v, ",") {
			if strings.EqualFold(strings.TrimSpace(part), word) {
				return true
			}
		}
	}
	return false
}

// framing says how a body is delimited. The zero value is no declaration.
type framing struct {
	chunked bool
	sized   bool
	length  int64 // meaningful when sized
}

// framing decides once how long the body is. Anything ambiguous is an error.
func (h *head) framing() (framing, error) {
	lengths := nonEmpty(h.values("Content-Length"))
	codings := nonEmpty(h.values("Transfer-Encoding"))
	switch {
	case len(lengths) > 1 || len(codings) > 1 || len(lengths) > 0 && len(codings) > 0:
		return framing{}, errBadHead
	case len(codings) == 1:
		if !strings.EqualFold(codings[0], "chunked") {
			return framing{}, errBadHead
		}
		return framing{chunked: true}, nil
	case len(lengths) == 1:
		n, err := strconv.ParseInt(lengths[0], 10, 63)
		if err != nil || strings.Trim(lengths[0], "0123456789") != "" {
			return framing{}, errBadHead
		}
		return framing{length: n, sized: true}, nil
	}
	return framing{}, nil
}

func nonEmpty(values []string) []string {
	return slices.DeleteFunc(values, func(v string) bool { return v == "" })
}

// isHopByHop recognises the fields that concern one connection only, RFC 9110
// section 7.6.1, in every spelling that some server folds to the same name: the next
// hop must see neither credentials of the proxy nor another framing.
func isHopByHop(lower string) bool {
	switch foldName(lower) {
	case "connection", "content-length", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade":
		return true
	}
	return false
}

// hidesFraming finds a field that declares a body for such servers only.
func (h *head) hidesFraming() bool {
	return slices.ContainsFunc(h.fields, func(f field) bool {
		lower := strings.ToLower(f.name)
		folded := foldName(lower)
		return folded != lower && (folded == "content-length" || folded == "transfer-encoding")
	})
}

// foldName maps a field name to one spelling of those that some server or
// gateway interface reads as the same name.
func foldName(name string) string {
	if name = strings.ToLower(name); !strings.ContainsAny(name, "_.") {
		return name
	}
	return strings.NewReplacer("_", "-", ".", "-").Replace(name)
}

// endToEnd returns the fields that go on to the other side: without those that
// concern this connection, those that Connection names, and Host and the
// framing, which the sender of the next hop sets itself.
func (h *head) endToEnd() []field {
	var named []string
	for _, v := range h.values("Connection") {
		for part := range strings.SplitSeq(v, ",") {
			named = append(named, strings.ToLower(strings.TrimSpace(part)))
		}
	}
	kept := make([]field, 0, len(h.fields)+4)
	for _, f := range h.fields {
		lower := strings.ToLower(f.name)
		if lower == "host" || isHopByHop(lower) || slices.Contains(named, lower) {
			continue
		}
		kept = append(kept, f)
	}
	return kept
}

// writeHead buffers a head. Errors show at the next flush.
func writeHead(w *bufio.Writer, start string, fields []field) error {
	w.WriteString(start)
	w.WriteString("\r\n")
	for _, f := range fields {
		w.WriteString(f.name)
		w.WriteString(": ")
		w.WriteString(f.value)
		w.WriteString("\r\n")
	}
	_, err := w.WriteString("\r\n")
	return err
}
