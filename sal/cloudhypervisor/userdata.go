package cloudhypervisor

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net/mail"
	"net/textproto"
	"strings"
	"unicode"

	"writ"
	"writ/internal/lazyregexp"
	"writ/sal/catalog"
)

// userData returns the user-data of a machine: cloud_init as given, followed by a part that writes the environment.
//
// The environment comes last and has its own merge type. So cloud-init handles and merges the given parts as it does
// without env.
func userData(args *catalog.MachineCreate) ([]byte, error) {
	given, err := args.CloudInit.Reveal()
	if err != nil {
		return nil, err
	}
	if len(args.Env) == 0 {
		return []byte(given), nil
	}
	environment, err := environment(args.Env)
	if err != nil || given == "" {
		return environment, err
	}
	if why := catalog.UselessEnvironment(given); why != "" { // an earlier check skips secret values
		return nil, writ.Errorf(writ.CodeArgumentsInvalid, "env has no effect: %s", why)
	}
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	boundary := "writ-user-data"
	for strings.Contains(given, boundary) {
		boundary += "-"
	}
	if err := w.SetBoundary(boundary); err != nil {
		return nil, err
	}
	fmt.Fprintf(&b, "Content-Type: multipart/mixed; boundary=%q\nMIME-Version: 1.0\n\n", w.Boundary())
	if message := mimeMessage([]byte(given)); message != nil {
		err = addMessage(w, message)
	} else {
		err = addText(w, []byte(given), nil)
	}
	if err == nil { // append to the lists of the given config and replace nothing else
		err = addText(w, environment,
			textproto.MIMEHeader{"Merge-Type": {"list(append)+dict(no_replace,recurse_list)+str()"}})
	}
	if err := errors.Join(err, w.Close()); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// mimeMessage parses user-data that is a MIME message, as written by `cloud-init devel make-mime` and Terraform. It
// returns nil for other user-data.
func mimeMessage(given []byte) *mail.Message {
	if bytes.HasPrefix(given, []byte("From ")) { // the envelope line of a mailbox
		_, given, _ = bytes.Cut(given, []byte("\n"))
	}
	message, err := mail.ReadMessage(bytes.NewReader(given))
	if err != nil || message.Header.Get("MIME-Version") == "" || message.Header.Get("Content-Type") == "" {
		return nil
	}
	return message
}

// addMessage adds a message as one part. cloud-init descends into it.
func addMessage(w *multipart.Writer, message *mail.Message) error {
	header := textproto.MIMEHeader(message.Header)
	header.Del("MIME-Version")
	part, err := w.CreatePart(header)
	if err != nil {
		return err
	}
	_, err = io.Copy(part, message.Body)
	return err
}

// addText adds a text; cloud-init detects its type by the first line. A text with non-ASCII characters is
// base64-encoded, because cloud-init garbles such characters in a message.
func addText(w *multipart.Writer, text []byte, header textproto.MIMEHeader) error {
	if header == nil {
		header = textproto.MIMEHeader{}
	}
	header.Set("Content-Type", `text/plain; charset="utf-8"`)
	ascii := !bytes.ContainsFunc(text, func(r rune) bool { return r > unicode.MaxASCII })
	if !ascii {
		header.Set("Content-Transfer-Encoding", "base64")
	}
	part, err := w.CreatePart(header)
	if err != nil {
		return err
	}
	if ascii {
		_, err = part.Write(text)
		return err
	}
	lines := base64.NewEncoder(base64.StdEncoding, part)
	_, err = lines.Write(text)
	return errors.Join(err, lines.Close())
}

// resolverConfig matches the keys of cloud-config that set nameservers.
var resolverConfig = lazyregexp.New(`(?m)^(manage_resolv_conf|resolv_conf)[ \t]*:`)

// setsResolver reports whether user-data sets the nameservers of the machine.
func setsResolver(given []byte) bool {
	if resolverConfig.Match(given) {
		return true
	}
	message := mimeMessage(given)
	return message != nil &&
		partSetsResolver(message.Header.Get("Content-Type"), message.Header.Get("Content-Transfer-Encoding"), message.Body)
}

// partSetsResolver is setsResolver for a part of a message and its nested parts.
func partSetsResolver(contentType, encoding string, body io.Reader) bool {
	kind, params, err := mime.ParseMediaType(contentType)
	if err == nil && strings.HasPrefix(kind, "multipart/") {
		for r := multipart.NewReader(body, params["boundary"]); ; {
			part, err := r.NextRawPart()
			if err != nil {
				return false
			}
			if partSetsResolver(part.Header.Get("Content-Type"), part.Header.Get("Content-Transfer-Encoding"), part) {
				return true
			}
		}
	}
	switch strings.ToLower(encoding) {
	case "base64":
		body = base64.NewDecoder(base64.StdEncoding, body)
	case "quoted-printable":
		body = quotedprintable.NewReader(body)
	}
	text, err := io.ReadAll(body)
	return err == nil && resolverConfig.Match(text)
}
