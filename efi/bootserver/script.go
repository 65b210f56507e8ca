package bootserver

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"writ/efi/progress"

	"writ"
)

// ipxe is the script that loads an image with a command line and starts it. AGAIN is the command after a failure.
const ipxe = `#!ipxe
:start
imgfree
kernel IMAGE || goto failed
boot || goto failed
:failed
echo The node image cannot be started. Next attempt in 10 seconds.
sleep 10
AGAIN
`

// Script returns the iPXE script that boots image with a command line. After a failure it loads the script at the URL
// `again`, or repeats the attempt if `again` is "". The words must be the complete command line, because it replaces
// the command line in the image.
func Script(image, again string, words []string) (string, error) {
	for _, word := range words {
		if word == "||" || word == "&&" || strings.Contains(word, "${") || strings.ContainsAny(word, "\"'\\#\x00\r\n") {
			return "", writ.Errorf(writ.CodeUsage, "the command line contains %q, which iPXE would misinterpret", word).
				WithHint("leave quotes, backslashes, #, ${ and && out")
		}
	}
	next := "goto start"
	if again != "" {
		next = "chain --replace --autofree " + again + " || goto failed"
	}
	return strings.NewReplacer("IMAGE", strings.Join(append([]string{image}, words...), " "), "AGAIN",
		next).Replace(ipxe), nil
}

// identity lists the query parameters that identify a machine, in addition to its hardware address.
const identity = "&uuid=${uuid}&serial=${serial:uristring}&asset=${asset:uristring}"

// askAgain returns the script for a request without a hardware address. The script repeats the request with the
// address. netX is the card over which iPXE loaded the script.
func askAgain(base string) string {
	return "#!ipxe\nchain --replace --autofree " + base + scriptPath + "?mac=${netX/mac:hexhyp}" + identity + "\n"
}

// base returns the base URL of this server for the requesting machine. It ignores the Host header, because some
// versions of iPXE omit the port there.
func (s *Server) base(r *http.Request) (string, error) {
	if s.URL != "" {
		return s.URL, nil
	}
	scheme := "http"
	if s.TLS != nil {
		scheme = "https"
	}
	local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	at, err := netip.ParseAddrPort(fmt.Sprint(local))
	if err != nil || at.Addr().Zone() != "" {
		return "", writ.Errorf(writ.CodeBadRequest, "this server does not know its address for machines").
			WithHint("start it with --url")
	}
	return scheme + "://" + netip.AddrPortFrom(at.Addr().Unmap(), at.Port()).String(), nil
}

// scriptOf returns the script of a machine with a command line. image is the file name of the image.
func scriptOf(image, base, mac string, words []string) (string, error) {
	name := progress.Name(mac)
	return Script(base+imagePath+image+"?mac="+name, base+scriptPath+"?failed=1&mac="+name+identity, words)
}

// answerScript answers with the script of a machine. The command line in the script has the common settings, the
// machine's own settings, and the address for reports.
func (s *Server) answerScript(w http.ResponseWriter, r *http.Request) {
	base, err := s.base(r)
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	query := r.URL.Query()
	text := askAgain(base)
	if query.Has("mac") { // an empty address is rejected, otherwise a machine without a card would ask forever
		mac := progress.MAC(query.Get("mac"))
		if mac == "" {
			s.refuse(w, r, notMAC())
			return
		}
		assigned, _ := s.Assigned() // List reports the error
		own := assigned.of(mac, identityOf(query.Get("serial")))
		// The last value of a setting wins.
		words := slices.Concat(s.Words, strings.Fields(own), []string{"writ.boot=" + base + progress.Path + progress.Name(mac)})
		if text, err = scriptOf(s.name, base, mac, words); err != nil {
			s.refuse(w, r, err)
			return
		}
		s.note(r, mac, func(m *Machine) {
			m.ask(query.Get, s.Now())
			m.Given, m.expected, m.reported = own, progress.SettingsOf(strings.Join(words, " ")), ""
		})
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = io.WriteString(w, text)
}

func notMAC() error {
	return writ.Errorf(writ.CodeBadRequest, "this is not an address of a network card").
		WithHint("ask as 52-54-00-77-00-50")
}
