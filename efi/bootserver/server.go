// Package bootserver serves machines that start over the network. It sends them an iPXE script and the node image, and
// tracks the progress of each start. A machine that hangs cannot report that itself, but the server notices the
// silence.
//
// The server trusts no machine: anyone on that network can send requests in the name of any machine. The state of the
// server is in memory, limited in size, and only for people to read. It contains no keys or tokens. The package does
// not depend on the content of an image or on the rules for admission.
package bootserver

import (
	"cmp"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"slices"
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
	defaultPerSecond = 50 // requests per client address; many machines behind one router may start at once
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
	gate

	digest   string
	name     string // file name of the image
	began    time.Time
	steps    limit.Lines  // rate limit for log lines about steps
	answers  limit.Bodies // lists that are being sent to operators
	machines *table
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
	s.gate = gate{
		guard: httpguard.Guard{
			Names: append([]string{c.URL}, c.Names...), Hint: "add it to the boot server with --allowed-host",
		},
		rates: limit.Addresses{PerSecond: cmp.Or(c.PerSecond, defaultPerSecond)}, log: c.Log, now: s.Now,
	}
	s.steps.AtOnce = 100
	if s.Assigned == nil {
		s.Assigned = func() (*Assignments, error) { return nil, nil }
	}
	if _, err := s.Assigned(); err != nil {
		return nil, err
	}
	if _, err := scriptOf(s.name, "http://192.0.2.1", "02:00:00:00:00:01", s.Words); err != nil {
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
