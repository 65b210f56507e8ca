package nodes

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/go-chi/chi/v5"

	"writ"
	"writ/identity/pki"
	"writ/internal/failpoint"
	"writ/internal/httpguard"
	"writ/internal/limit"
)

// The routes of the node API.
const (
	pathHello    = "/v1/join/hello"
	pathClaim    = "/v1/join/claim"
	pathRosters  = "/v1/rosters"
	pathPayloads = "/v1/payloads/"
	pathAccounts = "/v1/accounts/"
	pathNodes    = "/v1/nodes/"
	pathFence    = "/fence" // after the ID of a node
)

// maxRequest limits the body of a request, in bytes. A claim has a few hundred bytes.
const maxRequest = 16 << 10

// maxFenced limits the answer of a lost node, in bytes.
const maxFenced = 512 << 10

// fenced is the body of a request with a node's signed FenceAnswer.
type fenced struct {
	Signed []byte `json:"sealed"`
}

// Media types of texts signed by people, and of envelopes signed by a supervisor.
const (
	contentSigned   = "application/vnd.writ.signed"
	contentEnvelope = "application/vnd.writ.sealed"
)

// problem is an error on the wire (RFC 9457).
type problem struct {
	Type      string    `json:"type"` // "urn:writ:code:" and the code
	Title     string    `json:"title"`
	Status    int       `json:"status"`
	Detail    string    `json:"detail"`
	Code      writ.Code `json:"code"`
	Hint      string    `json:"hint,omitempty"`
	RequestID string    `json:"request_id"`
}

// Standby returns the node API of a supervisor that does not serve its datacenter. It refuses each request with reason,
// so that nodes retry and a load balancer chooses another supervisor.
func Standby(reason error, log *slog.Logger) http.Handler {
	h := &handler{log: log}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.fail(w, r, reason) })
}

// Guarded returns a handler that rejects cross-site requests from browsers; see httpguard. names are the host names of
// the supervisor.
func Guarded(next http.Handler, names []string, log *slog.Logger) http.Handler {
	h := &handler{log: log}
	guard := &httpguard.Guard{Names: names, Hint: "use the supervisor's address, or start it with --allowed-host"}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := guard.Check(r); err != nil {
			h.fail(w, r, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// Rate limits per client address. A node fetches one payload for each run that sends it jobs. A join makes the
// supervisor create or verify signatures.
const (
	requestsPerSecond = 1000
	joinsPerSecond    = 50
)

// Handler returns the node API as HTTP. It limits the requests of each address.
//
// Joins, fences and boot reports are authenticated by their signatures and tokens; rosters are public. Over TLS, only
// members can fetch payloads, and only the node itself can fetch its account; clients present the certificates of their
// keys. Plain HTTP is meant for clients on the supervisor's machine. Such a client needs the digest of a payload, and
// only the node can decrypt its account. If members is nil, no client is a member and the rosters must not change.
func Handler(backend Backend, members Members, log *slog.Logger) http.Handler {
	h := &handler{backend: backend, members: members, pages: newRosterPages(backend, members), log: log}
	r := chi.NewRouter()
	r.Use(h.bounded(&limit.Addresses{PerSecond: requestsPerSecond}), meterBodies(new(limit.Bodies)))
	joins := r.With(h.bounded(&limit.Addresses{PerSecond: joinsPerSecond}))
	turns := new(limit.Turns) // for requests without a client certificate
	inTurn := func(next http.Handler) http.Handler { return httpguard.InTurn(turns, next) }
	joins.With(inTurn).Post(pathHello, answer(h, func(r *http.Request) (any, error) {
		hello, err := decode[Hello](r, maxRequest)
		if err != nil {
			return nil, err
		}
		proof, err := h.backend.Greet(r.Context(), hello)
		failpoint.ProofAnswered.Begin()
		return proof, err
	}))
	joins.Post(pathClaim, answer(h, func(r *http.Request) (any, error) {
		claim, err := decode[Claim](r, maxRequest)
		if err != nil {
			return nil, err
		}
		welcome, err := h.backend.Admit(context.WithValue(r.Context(), remote{}, limit.NetworkOf(r.RemoteAddr)), claim)
		failpoint.WelcomeAnswered.Begin()
		return welcome, err
	}))
	joins.Get(pathBoots+"/{token}", answer(h, h.bootNext))
	joins.Post(pathBoots, answer(h, h.bootReport))
	r.With(inTurn).Get(pathRosters, h.rosters)
	known := r.With(h.known, precede(turns))
	known.Get(pathPayloads+"{sha256}", h.payload)
	known.Get(pathAccounts+"{node}", h.account)
	r.Get(pathNodes+"{node}", h.standing)
	r.Get(pathNodes+"{node}"+pathFence, h.fence)
	r.Post(pathNodes+"{node}"+pathFence, answer(h, h.fenced))
	r.NotFound(func(w http.ResponseWriter, r *http.Request) {
		h.fail(w, r, writ.Errorf(writ.CodeNotFound, "the path %s is unknown", r.URL.Path))
	})
	r.MethodNotAllowed(func(w http.ResponseWriter, r *http.Request) {
		h.fail(w, r, writ.Errorf(writ.CodeMethodNotAllowed, "the path %s does not support %s", r.URL.Path, r.Method))
	})
	return r
}

// precede gives priority to the requests of its handler: while such a request is in progress, the requests that wait
// for `turns` are slowed down.
func precede(turns *limit.Turns) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			defer turns.Precede()()
			next.ServeHTTP(w, r)
		})
	}
}

type handler struct {
	backend Backend
	members Members
	pages   *rosterPages
	log     *slog.Logger
	lines   limit.Lines
}

// known refuses a request over TLS unless its certificate belongs to an approved node. If the path names a node, the
// certificate must belong to that node.
func (h *handler) known(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.TLS != nil {
			if err := h.admits(pki.BareKey(r.TLS.PeerCertificates), writ.NodeID(chi.URLParam(r, "node"))); err != nil {
				h.fail(w, r, err)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// admits returns nil if key belongs to an approved node. Unless `wanted` is "", the node must have that ID.
func (h *handler) admits(key ed25519.PublicKey, wanted writ.NodeID) error {
	var n *writ.Node
	if key != nil {
		n = h.members.Member(key)
	}
	switch {
	case n == nil:
		return writ.Errorf(writ.CodeCertificateRole,
			"only nodes of the datacenter may request this, and the client certificate belongs to none").
			WithHint("send the request from the node, with its own data directory")
	case wanted != "" && n.ID != wanted:
		return writ.Errorf(writ.CodeCertificateRole, "the node %s may not request data of the node %s", n.Name, wanted).
			WithHint("send the request from that node, with its own data directory")
	}
	return Admitted(n)
}

// Admitted returns nil for an approved node, CONFLICT while it is pending, and NODE_REJECTED if it was rejected or
// removed.
func Admitted(n *writ.Node) error {
	switch n.Admission {
	case writ.AdmissionApproved:
		return nil
	case writ.AdmissionRemoved, writ.AdmissionRejected:
		return writ.Errorf(writ.CodeNodeRejected, "the node %s was %s here", n.Name, n.Admission).
			WithHint("join with a new data directory")
	default:
		return writ.Errorf(writ.CodeConflict, "the node %s is %s", n.Name, n.Admission).
			WithHint("`writ node approve %s`", n.Name)
	}
}

// bounded rejects requests that exceed limits.
func (h *handler) bounded(limits *limit.Addresses) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if wait := limits.Take(r.RemoteAddr, 1, time.Now()); wait > 0 {
				w.Header().Set("Retry-After", strconv.Itoa(int(wait/time.Second)+1))
				h.fail(w, r, writ.Errorf(writ.CodeRateLimited, "too many requests from %s", limit.NetworkOf(r.RemoteAddr)))
				return
			}
			next.ServeHTTP(w, r)
		})
	}
}

// answer writes the result of the function `ask`, as JSON or as a problem.
func answer(h *handler, ask func(r *http.Request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v, err := ask(r)
		if err != nil {
			h.fail(w, r, err)
			return
		}
		writeJSON(w, "application/json", http.StatusOK, v)
	}
}

func (h *handler) payload(w http.ResponseWriter, r *http.Request) {
	digest, err := writ.ParseDigest(chi.URLParam(r, "sha256"))
	if err != nil {
		h.fail(w, r, writ.Errorf(writ.CodeBadRequest, "a payload must be requested by its SHA-256: %v", err))
		return
	}
	signed, err := h.backend.Payload(r.Context(), digest)
	if err != nil {
		h.fail(w, r, err)
		return
	}
	failpoint.PayloadAnswered.Begin()
	writeBytes(w, contentSigned, signed)
}

func (h *handler) standing(w http.ResponseWriter, r *http.Request) {
	signed, err := questioned(r, h.backend.Standing)
	if err != nil {
		h.fail(w, r, err)
		return
	}
	failpoint.StandingAnswered.Begin()
	writeBytes(w, contentEnvelope, signed)
}

func (h *handler) fence(w http.ResponseWriter, r *http.Request) {
	signed, err := questioned(r, h.backend.Fence)
	if err != nil {
		h.fail(w, r, err)
		return
	}
	failpoint.FenceAnswered.Begin()
	writeBytes(w, contentEnvelope, signed)
}

// questioned reads the node and the nonce from a request for a signed answer, and calls `ask` with them.
func questioned(
	r *http.Request, ask func(ctx context.Context, node writ.NodeID, nonce []byte) ([]byte, error),
) ([]byte, error) {
	nonce, err := hex.DecodeString(r.URL.Query().Get("nonce"))
	if err != nil {
		return nil, writ.Errorf(writ.CodeBadRequest, "a nonce must consist of hex digits")
	}
	return ask(r.Context(), writ.NodeID(chi.URLParam(r, "node")), nonce)
}

func (h *handler) fenced(r *http.Request) (any, error) {
	node := writ.NodeID(chi.URLParam(r, "node"))
	if h.members != nil && !h.members.Gone(node) { // before the body of an unknown client is read
		return nil, NotGone(node)
	}
	said, err := decode[fenced](r, maxFenced)
	if err != nil {
		return nil, err
	}
	err = h.backend.Fenced(r.Context(), node, said.Signed)
	failpoint.FencedAnswered.Begin()
	return struct{}{}, err
}

// NotGone returns the error for a fence request of a node that no person has declared lost.
func NotGone(node writ.NodeID) error {
	return writ.Errorf(writ.CodeNotFound, "no person has signed that the node %s is lost", node)
}

// remote is the key of the context value that Remote returns.
type remote struct{}

// Remote returns the client network of a request: an IPv4 address, or the first half of an IPv6 address. One host may
// own all addresses with this first half. It is set only for Backend.Admit, and "" otherwise.
func Remote(ctx context.Context) string {
	network, _ := ctx.Value(remote{}).(string)
	return network
}

func (h *handler) account(w http.ResponseWriter, r *http.Request) {
	asked, err := base64.RawURLEncoding.DecodeString(r.URL.Query().Get("asked"))
	if err != nil {
		h.fail(w, r, writ.Errorf(writ.CodeBadRequest, "the account request cannot be decoded: %v", err))
		return
	}
	if len(asked) == 0 {
		h.fail(w, r, writ.Errorf(writ.CodeBadRequest, "the account request is missing"))
		return
	}
	signed, err := h.backend.Account(r.Context(), writ.NodeID(chi.URLParam(r, "node")), asked)
	if err != nil {
		h.fail(w, r, err)
		return
	}
	failpoint.AccountAnswered.Begin()
	writeBytes(w, contentEnvelope, signed)
}

// fail writes an error. Details that are not for people are logged under the request's ID, and the answer contains only
// the ID.
func (h *handler) fail(w http.ResponseWriter, r *http.Request, err error) {
	e, id := writ.AsError(err), writ.NewUUID()
	if !errors.Is(err, context.Canceled) {
		h.note(r, e.Code, id, err)
	}
	info, hint := e.Code.Info(), e.Hint
	if hint == "" {
		hint = fmt.Sprintf("`writ explain %s` explains the code", e.Code)
	}
	writeJSON(w, "application/problem+json", info.Status, problem{
		Type: "urn:writ:code:" + string(e.Code), Title: info.Explain(), Status: info.Status,
		Detail: e.Message, Code: e.Code, Hint: hint, RequestID: id,
	})
}

// note logs a refusal. The log is rate-limited per code and route, because clients may send any number of requests.
// Internal errors are always logged.
func (h *handler) note(r *http.Request, code writ.Code, id string, err error) {
	level, times, say := slog.LevelError, 1, true
	if code != writ.CodeInternal {
		level = slog.LevelInfo
		times, say = h.lines.Say(string(code)+" "+chi.RouteContext(r.Context()).RoutePattern(), time.Now())
	}
	if say {
		h.log.Log(r.Context(), level, "node refused", "request", id, "path", r.URL.Path, "remote", r.RemoteAddr, "code", code,
			"err", err, "times", times)
	}
}

func writeBytes(w http.ResponseWriter, contentType string, body []byte) {
	w.Header().Set("Content-Type", contentType)
	_, _ = w.Write(body) // the client detects a truncated body
}

func writeJSON(w http.ResponseWriter, contentType string, status int, v any) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the client detects a truncated body
}

// meterBodies limits the total bytes of all request bodies in memory.
func meterBodies(bodies *limit.Bodies) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, release := bodies.Meter(r.RemoteAddr, r.Body)
			defer release()
			r.Body = body
			next.ServeHTTP(w, r)
		})
	}
}

// decode decodes a body strictly: one value, no unknown fields, at most `most` bytes.
func decode[T any](r *http.Request, most int64) (T, error) {
	var v T
	d := json.NewDecoder(http.MaxBytesReader(nil, r.Body, most))
	d.DisallowUnknownFields()
	err := d.Decode(&v)
	if err == nil {
		if _, more := d.Token(); more != io.EOF {
			err = errors.New("unexpected data after the value")
		}
	}
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return v, writ.Errorf(writ.CodeTooLarge, "the request has more than %d bytes", most)
	}
	if limited, ok := errors.AsType[*writ.Error](err); ok && limited.Code == writ.CodeRateLimited {
		return v, limited
	}
	if err != nil {
		return v, writ.Errorf(writ.CodeBadRequest, "the request cannot be decoded: %v", err)
	}
	return v, nil
}

// statusText describes a response that was not written by a node API.
func statusText(status int) string { return fmt.Sprintf("%d %s", status, http.StatusText(status)) }
