package nodes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"

	"github.com/go-chi/chi/v5"

	"writ"
	"writ/internal/failpoint"
)

// The routes of the door.
const (
	pathHello    = "/v1/join/hello"
	pathClaim    = "/v1/join/claim"
	pathRosters  = "/v1/rosters"
	pathPayloads = "/v1/payloads/"
	pathAccounts = "/v1/accounts/"
)

// maxRequest bounds the body of a request: a claim has a few hundred bytes.
const maxRequest = 16 << 10

// The media types of signed texts and of what is sealed.
const (
	contentSigned = "application/vnd.writ.signed"
	contentSealed = "application/vnd.writ.sealed"
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

// Standby is the door of a supervisor that does not serve its datacenter now: it refuses everything, with reason, so that nodes ask
// again and whatever stands in front of several supervisors asks another one.
func Standby(reason error, log *slog.Logger) http.Handler {
	h := &handler{nil, log}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.fail(w, r, reason) })
}

// Handler returns the door as HTTP. It needs no login: a join proves itself, rosters are meant to be known, a payload is found only
// by who knows its digest, and an account can be opened only by its node.
func Handler(backend Backend, log *slog.Logger) http.Handler {
	h := &handler{backend, log}
	r := chi.NewRouter()
	r.Post(pathHello, answer(h, func(r *http.Request) (any, error) {
		hello, err := decode[Hello](r)
		if err != nil {
			return nil, err
		}
		proof, err := h.backend.Greet(r.Context(), hello)
		failpoint.ProofAnswered.Begin()
		return proof, err
	}))
	r.Post(pathClaim, answer(h, func(r *http.Request) (any, error) {
		claim, err := decode[Claim](r)
		if err != nil {
			return nil, err
		}
		welcome, err := h.backend.Admit(r.Context(), claim)
		failpoint.WelcomeAnswered.Begin()
		return welcome, err
	}))
	r.Get(pathRosters, answer(h, h.rosters))
	r.Get(pathPayloads+"{sha256}", h.payload)
	r.Get(pathAccounts+"{node}", h.account)
	r.NotFound(func(w http.ResponseWriter, r *http.Request) {
		h.fail(w, r, writ.Errorf(writ.CodeNotFound, "there is nothing at %s", r.URL.Path))
	})
	r.MethodNotAllowed(func(w http.ResponseWriter, r *http.Request) {
		h.fail(w, r, writ.Errorf(writ.CodeMethodNotAllowed, "%s does not take %s", r.URL.Path, r.Method))
	})
	return r
}

type handler struct {
	backend Backend
	log     *slog.Logger
}

// answer writes what ask returns, as JSON or as a problem.
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

func (h *handler) rosters(r *http.Request) (any, error) {
	after := 0
	if text := r.URL.Query().Get("after"); text != "" {
		var err error
		if after, err = strconv.Atoi(text); err != nil || after < 0 {
			return nil, writ.Errorf(writ.CodeBadRequest, "after=%q is not a version of the roster", text)
		}
	}
	signed, err := h.backend.Rosters(r.Context(), after)
	if signed == nil {
		signed = [][]byte{}
	}
	failpoint.RostersAnswered.Begin()
	return signed, err
}

func (h *handler) payload(w http.ResponseWriter, r *http.Request) {
	digest, err := writ.ParseDigest(chi.URLParam(r, "sha256"))
	if err != nil {
		h.fail(w, r, writ.Errorf(writ.CodeBadRequest, "a payload is asked for by its SHA-256: %v", err))
		return
	}
	signed, err := h.backend.Payload(r.Context(), digest)
	if err != nil {
		h.fail(w, r, err)
		return
	}
	failpoint.PayloadAnswered.Begin()
	w.Header().Set("Content-Type", contentSigned)
	_, _ = w.Write(signed) // the client sees that it is cut off
}

func (h *handler) account(w http.ResponseWriter, r *http.Request) {
	sealed, err := h.backend.Account(r.Context(), writ.NodeID(chi.URLParam(r, "node")))
	if err != nil {
		h.fail(w, r, err)
		return
	}
	failpoint.AccountAnswered.Begin()
	w.Header().Set("Content-Type", contentSealed)
	_, _ = w.Write(sealed) // the client sees that it is cut off
}

// fail writes an error. What is not meant for people is logged under the request's id, and only the id is shown.
func (h *handler) fail(w http.ResponseWriter, r *http.Request, err error) {
	e, id := writ.AsError(err), writ.NewUUID()
	level := slog.LevelInfo
	if e.Code == writ.CodeInternal {
		level = slog.LevelError
	}
	if !errors.Is(err, context.Canceled) {
		h.log.Log(r.Context(), level, "node refused", "request", id, "path", r.URL.Path, "remote", r.RemoteAddr, "code", e.Code, "err", err)
	}
	info, hint := e.Code.Info(), e.Hint
	if hint == "" {
		hint = fmt.Sprintf("`writ explain %s` tells more", e.Code)
	}
	writeJSON(w, "application/problem+json", info.Status, problem{
		Type: "urn:writ:code:" + string(e.Code), Title: info.Explain, Status: info.Status,
		Detail: e.Message, Code: e.Code, Hint: hint, RequestID: id,
	})
}

func writeJSON(w http.ResponseWriter, contentType string, status int, v any) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the client sees that it is cut off
}

// decode reads a body strictly: one value, no unknown fields, no more than maxRequest bytes.
func decode[T any](r *http.Request) (T, error) {
	var v T
	d := json.NewDecoder(http.MaxBytesReader(nil, r.Body, maxRequest))
	d.DisallowUnknownFields()
	err := d.Decode(&v)
	if err == nil {
		if _, more := d.Token(); more != io.EOF {
			err = errors.New("there is more behind it")
		}
	}
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return v, writ.Errorf(writ.CodeTooLarge, "the request has more than %d bytes", maxRequest)
	}
	if err != nil {
		return v, writ.Errorf(writ.CodeBadRequest, "the request cannot be read: %v", err)
	}
	return v, nil
}

// statusText names a response that no door of ours wrote.
func statusText(status int) string { return fmt.Sprintf("%d %s", status, http.StatusText(status)) }
