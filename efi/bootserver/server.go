// Package bootserver serves machines that start over the network. It sends them an iPXE script and the node image, and
// tracks the progress of each start. A machine that hangs cannot report that itself, but the server notices the
// silence.
//
// The server trusts no machine: anyone on that network can send requests in the name of any machine. Its state is in
// memory, limited in size, and only for people to read. It holds no keys or tokens. It must not know the content of an
// image or the rules for admission.
package bootserver

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"writ"
	"writ/efi/progress"
	"writ/internal/httpguard"
	"writ/internal/limit"
)

// Paths for machines. Reports go to progress.Path.
const (
	scriptPath = "/boot/ipxe"
	imagePath  = "/boot/image/"
)

// ListPath is the path of List on the listener for operators.
const ListPath = "/v1/machines"

// Limits of requests.
const (
	MaxHeader        = 16 << 10
	defaultPerSecond = 50 // requests per client address: all machines of a rack behind a router start at once
	maxIdentity      = 64 // bytes of a serial number or a similar field
	answerWithin     = 30 * time.Second
)

// Config holds the image and the settings that the server sends to machines.
type Config struct {
	Image []byte   // the node image, kept in memory, so that the digest matches the bytes sent
	Words []string // kernel command line, without secrets: anyone on the network can read it
	// Assigned returns the current settings of single machines. It may be nil. Machines do not verify these settings,
	// so they must not contain secrets or authorise anything.
	Assigned func() (*Assignments, error)
	URL      string      // base URL for machines, without a trailing slash; "" for the address that a machine used
	TLS      *tls.Config // if set, machines use https://
	Names    []string    // additional host names in requests of machines and operators
	Log      *slog.Logger

	PerSecond float64          // requests per client address; 0 for the default
	Now       func() time.Time // nil for time.Now
}

// Server answers machines and operators. It is safe for concurrent use.
type Server struct {
	Config

	digest   string
	name     string // file name of the image
	began    time.Time
	guard    httpguard.Guard
	rates    limit.Addresses
	refusals limit.Lines  // by code
	steps    limit.Lines  // of machines
	answers  limit.Bodies // lists that are being sent to operators
	machines *table
}

// List is the response for operators.
type List struct {
	Image    string    `json:"image"` // digest of the served image
	Bytes    int64     `json:"bytes"`
	Began    time.Time `json:"began"` // start of the server; earlier events are unknown
	Machines []Row     `json:"machines"`
	// Trouble is the error of reading the assigned settings. The previous settings stay in force.
	Trouble string `json:"trouble,omitempty"`
}

// Row is a machine with advice for operators. Ages follow the server's clock.
type Row struct {
	Machine
	AgeSeconds    int64  `json:"age_seconds"`    // since it reached its step
	SilentSeconds int64  `json:"silent_seconds"` // since its last request
	Advice        string `json:"advice"`

	Assigned   string `json:"assigned,omitempty"`   // settings assigned to this machine
	Assignment string `json:"assignment,omitempty"` // state of these settings, such as AssignmentWaits
}

// New returns a server. It returns USAGE if iPXE would misinterpret the command line.
func New(c Config) (*Server, error) {
	sum := sha256.Sum256(c.Image)
	s := &Server{Config: c, digest: hex.EncodeToString(sum[:]), machines: newTable(MaxMachines)}
	s.name = ImageName(s.digest)
	if s.Now == nil {
		s.Now = time.Now
	}
	s.began = s.Now()
	s.guard = httpguard.Guard{
		Names: append([]string{c.URL}, c.Names...), Hint: "add it to the boot server with --allowed-host",
	}
	s.rates.PerSecond = cmp.Or(c.PerSecond, defaultPerSecond)
	s.steps.AtOnce = 100
	if s.Assigned == nil {
		s.Assigned = func() (*Assignments, error) { return nil, nil }
	}
	if _, err := s.Assigned(); err != nil {
		return nil, err
	}
	if _, err := s.script("http://192.0.2.1", "02:00:00:00:00:01", s.Words); err != nil {
		return nil, err
	}
	return s, nil
}

// ImageName returns the file name of an image, for machines.
func ImageName(digest string) string { return "writ-node-" + digest + ".efi" }

// Digest returns the SHA-256 of the image in hex.
func (s *Server) Digest() string { return s.digest }

// ForMachines returns the handler for machines.
func (s *Server) ForMachines() http.Handler {
	return s.routed(machineRoutes)
}

// ForOperators returns the handler for operators.
func (s *Server) ForOperators() http.Handler {
	return s.routed(operatorRoutes)
}

// Routes for machines and for operators. No route requires a login.
var (
	machineRoutes = map[string]func(s *Server, w http.ResponseWriter, r *http.Request){
		"GET " + scriptPath:               (*Server).answerScript,
		"GET " + imagePath + "{name}":     (*Server).answerImage,
		"POST " + progress.Path + "{mac}": (*Server).answerReport,
	}
	operatorRoutes = map[string]func(s *Server, w http.ResponseWriter, r *http.Request){
		"GET " + ListPath: (*Server).answerList,
	}
)

// Routes lists all routes of the server.
func Routes() []string {
	return slices.Sorted(slices.Values(slices.AppendSeq(slices.Collect(maps.Keys(machineRoutes)),
		maps.Keys(operatorRoutes))))
}

func (s *Server) routed(routes map[string]func(s *Server, w http.ResponseWriter, r *http.Request)) http.Handler {
	mux := http.NewServeMux()
	for route, answer := range routes {
		mux.HandleFunc(route, func(w http.ResponseWriter, r *http.Request) { answer(s, w, r) })
	}
	return s.guarded(mux)
}

// guarded limits the requests per client address and rejects cross-site requests of browsers.
func (s *Server) guarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Otherwise the deadline of the previous request still applies.
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(answerWithin))
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		if err := s.guard.Check(r); err != nil {
			s.refuse(w, r, err)
			return
		}
		if wait := s.rates.Take(r.RemoteAddr, 1, s.Now()); wait > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(int(wait/time.Second)+1))
			s.refuse(w, r, writ.Errorf(writ.CodeRateLimited, "too many requests of this address"))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// refuse sends an error as text. iPXE shows only the status.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, err error) {
	e := writ.AsError(err)
	if times, say := s.refusals.Say(string(e.Code), time.Now()); say {
		s.Log.WarnContext(r.Context(), "a request was refused", "address", hostOf(r.RemoteAddr), "code", e.Code,
			"err", progress.Text(e.Message, progress.MaxText), "times", times)
	}
	text := string(e.Code) + ": " + e.Message + "\n"
	if e.Hint != "" {
		text += "hint: " + e.Hint + "\n"
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(e.Code.Info().Status)
	_, _ = io.WriteString(w, text)
}

// note updates a machine and logs its new step.
func (s *Server) note(r *http.Request, mac string, change func(m *Machine)) {
	before := ""
	m := s.machines.update(mac, r.RemoteAddr, s.Now(), func(m *Machine) { before = m.Step; change(m) })
	if m.Step == before {
		return
	}
	if times, say := s.steps.Say("", time.Now()); say {
		s.Log.InfoContext(r.Context(), "machine", "mac", m.MAC, "step", m.Step, "text", m.Text, "failed", m.Failed,
			"failures", m.Failures, "address", m.Address, "times", times)
	}
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

// script returns the script of a machine with a command line. All machines get the same image.
func (s *Server) script(base, mac string, words []string) (string, error) {
	name := progress.Name(mac)
	return Script(base+imagePath+s.name+"?mac="+name, base+scriptPath+"?failed=1&mac="+name+identity, words)
}

// words returns the command line of a machine: the common settings, its own, and the address for reports. The last
// value of a setting wins.
func (s *Server) words(base, mac, own string) []string {
	return slices.Concat(s.Words, strings.Fields(own),
		[]string{"writ.boot=" + base + progress.Path + progress.Name(mac)})
}

func (s *Server) answerScript(w http.ResponseWriter, r *http.Request) {
	base, err := s.base(r)
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	query := r.URL.Query()
	text := askAgain(base)
	if query.Has("mac") { // reject an empty one, otherwise a machine without a card would ask forever
		mac := progress.MAC(query.Get("mac"))
		if mac == "" {
			s.refuse(w, r, notMAC())
			return
		}
		assigned, _ := s.Assigned() // the list shows the error
		own := assigned.of(mac, identityOf(query.Get("serial")))
		words := s.words(base, mac, own)
		if text, err = s.script(base, mac, words); err != nil {
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

// ask records a request for a script.
func (m *Machine) ask(query func(string) string, now time.Time) {
	m.Serial, m.UUID, m.Asset = identityOf(query("serial")), identityOf(query("uuid")), identityOf(query("asset"))
	if query("failed") != "" {
		m.Failures++
	} else { // a new start
		m.Since, m.Node, m.Failures = now, "", 0
		m.start(now)
	}
	m.reach(StepScript, false, "", now)
	m.Image, m.Sent, m.Size = "", 0, 0
}

// identityOf normalises a value from firmware. It returns "" for a value without information, such as zeros.
func identityOf(text string) string {
	if strings.Trim(text, "0-") == "" {
		return ""
	}
	return progress.Text(text, maxIdentity)
}

func notMAC() error {
	return writ.Errorf(writ.CodeBadRequest, "this is not an address of a network card").
		WithHint("ask as 52-54-00-77-00-50")
}

func (s *Server) answerImage(w http.ResponseWriter, r *http.Request) {
	if r.PathValue("name") != s.name {
		s.refuse(w, r,
			writ.Errorf(writ.CodeNotFound, "unknown image").WithHint("ask for the script again, which names the image"))
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	w.Header().Set("ETag", `"`+s.digest+`"`)
	sending := &sending{ResponseWriter: w, deadlines: http.NewResponseController(w)}
	if mac := progress.MAC(r.URL.Query().Get("mac")); mac != "" && r.Method == http.MethodGet {
		sending.told = func(upTo int64) {
			s.note(r, mac, func(m *Machine) { m.load(s.digest, upTo, int64(len(s.Image)), s.Now()) })
		}
	}
	http.ServeContent(sending, r, "", time.Time{}, bytes.NewReader(s.Image))
}

// load records that the first upTo bytes of the image were sent.
func (m *Machine) load(digest string, upTo, size int64, now time.Time) {
	step := StepLoading
	if upTo == size {
		step = StepSent
	}
	m.reach(step, false, "", now)
	m.Image, m.Sent, m.Size = digest, upTo, size
}

func (s *Server) answerReport(w http.ResponseWriter, r *http.Request) {
	mac := progress.MAC(r.PathValue("mac"))
	if mac == "" {
		s.refuse(w, r, notMAC())
		return
	}
	var report progress.Report
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, progress.MaxBytes))
	if err == nil {
		err = json.Unmarshal(text, &report)
	}
	if err != nil || !report.Valid() {
		s.refuse(w, r, writ.Errorf(writ.CodeBadRequest, "this is not a valid report"))
		return
	}
	report = report.Clean()
	s.note(r, mac, func(m *Machine) { m.report(report, s.Now()) })
	w.WriteHeader(http.StatusNoContent)
}

// answerList answers with the list. All lists that are being sent take a bounded amount of memory, however slowly
// operators read.
func (s *Server) answerList(w http.ResponseWriter, r *http.Request) {
	metered := &httpguard.MeteredWriter{
		ResponseWriter: w,
		Reserve: func(bytes int) (func(),
			bool) {
			return s.answers.Reserve(limit.NetworkOf(r.RemoteAddr), bytes)
		},
		Refuse: func(w http.ResponseWriter) {
			s.refuse(w, r, writ.Errorf(writ.CodeRateLimited,
				"too many lists are being sent at the same time").WithHint("try again in a second"))
		},
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(metered).Encode(s.List())
}

// List returns the current state of all machines.
func (s *Server) List() List {
	l := List{Image: s.digest, Bytes: int64(len(s.Image)), Began: s.began, Machines: []Row{}}
	assigned, err := s.Assigned()
	if err != nil {
		l.Trouble = writ.AsError(err).Message
	}
	now := s.Now()
	seconds := func(t time.Time) int64 { return int64(max(now.Sub(t), 0) / time.Second) }
	for _, m := range s.machines.list() {
		own := assigned.of(m.MAC, m.Serial)
		state := m.assignmentState(own)
		l.Machines = append(l.Machines, Row{
			Machine: m, AgeSeconds: seconds(m.Since), SilentSeconds: seconds(m.Heard),
			Advice: m.Advice(now) + assignmentAdvice(state), Assigned: own, Assignment: state,
		})
	}
	l.Machines = assigned.withUnseen(l.Machines, seconds(s.began))
	return l
}

// hostOf returns the host of "host:port".
func hostOf(remote string) string {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		return remote
	}
	return host
}
