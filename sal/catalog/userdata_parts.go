package catalog

import (
	"encoding/base64"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net/mail"
	"net/textproto"
	"strings"
)

// maxParts limits the examined parts of user-data, and maxPartDepth their nesting.
const (
	maxParts     = 100
	maxPartDepth = 4
)

// isMessage reports whether user-data is a MIME message.
func isMessage(s string) bool {
	first, _, _ := strings.Cut(s, ":")
	return strings.EqualFold(first, "Content-Type") || strings.EqualFold(first, "MIME-Version")
}

// uselessParts checks each cloud-config in a MIME message. It skips parts that it cannot decode, because the parser of
// cloud-init accepts more.
func uselessParts(s string) string {
	message, err := mail.ReadMessage(strings.NewReader(s))
	if err != nil {
		return ""
	}
	p := &partCheck{}
	p.read(textproto.MIMEHeader(message.Header), message.Body, 0)
	return p.why
}

// partCheck is the check of all parts of a message.
type partCheck struct {
	parts int
	why   string // the problem of the first useless part
}

// read checks a part, or the parts in it.
func (p *partCheck) read(header textproto.MIMEHeader, body io.Reader, depth int) {
	kind, params, err := mime.ParseMediaType(header.Get("Content-Type"))
	if err != nil || p.why != "" {
		return
	}
	if !strings.HasPrefix(kind, "multipart/") {
		p.parts++
		p.leaf(kind, header, body)
		return
	}
	if depth == maxPartDepth || params["boundary"] == "" {
		return
	}
	for r := multipart.NewReader(body, params["boundary"]); p.why == "" && p.parts < maxParts; {
		part, err := r.NextRawPart()
		if err != nil {
			return
		}
		p.read(part.Header, part, depth+1)
	}
}

// leaf checks a part that contains no other parts. cloud-init recognises a cloud-config of type text/plain by its first
// line.
func (p *partCheck) leaf(kind string, header textproto.MIMEHeader, body io.Reader) {
	switch strings.ToLower(strings.TrimSpace(header.Get("Content-Transfer-Encoding"))) {
	case "base64":
		body = base64.NewDecoder(base64.StdEncoding, body) // ignores line breaks
	case "quoted-printable":
		body = quotedprintable.NewReader(body)
	}
	text, err := io.ReadAll(body)
	if err != nil {
		return
	}
	first, _, _ := strings.Cut(strings.TrimLeft(string(text), " \t\r\n"), "\n")
	isConfig := kind == "text/cloud-config" && !strings.HasPrefix(first, "## template:") ||
		kind == "text/plain" && configHeader.MatchString(first)
	if why := uselessCloudConfig(string(text)); isConfig && why != "" {
		p.why = fmt.Sprintf("of its part %d (%s), %s", p.parts, kind, why)
	}
}
