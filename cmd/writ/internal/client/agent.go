package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"golang.org/x/crypto/ssh"

	"writ"
	"writ/identity/sshsig"
)

// Limits of requests to an ssh-agent. A signature may need the user: a security key waits for a touch, and an agent may
// wait for a confirmation.
const (
	agentListLimit = 5 * time.Second
	agentSignLimit = 2 * time.Minute
	// agentNoticeDelay is the time after which a waiting command shows a notice.
	agentNoticeDelay = 2 * time.Second
)

// agentSession is a connection to the user's ssh-agent. A request ends with the context of the session or at its own
// limit, because an agent can accept a connection and never answer.
type agentSession struct {
	ctx     context.Context
	conn    net.Conn
	socket  string
	waiting func(what string) // may be nil
}

// errAgentMute marks an agent that did not answer in time. Further requests to it are skipped.
var errAgentMute = errors.New("the ssh-agent is mute")

// errAgentGone marks an agent whose socket accepts no connection.
var errAgentGone = errors.New("the ssh-agent is gone")

func dialAgent(ctx context.Context, socket string, waiting func(string)) (*agentSession, error) {
	limited, stop := context.WithTimeout(ctx, agentListLimit)
	defer stop()
	conn, err := new(net.Dialer).DialContext(limited, "unix", socket)
	switch {
	case limited.Err() != nil:
		return nil, cmp.Or(ctx.Err(), muteAgent(socket, "accept a connection", agentListLimit))
	case err != nil:
		e := writ.Errorf(writ.CodeKeyUnusable, "cannot reach the ssh-agent that SSH_AUTH_SOCK names: %v", err).
			WithHint("start an agent with `eval \"$(ssh-agent)\"` and load a key with `ssh-add`; or name a key file with --key")
		e.Err = errAgentGone
		return nil, e
	}
	return &agentSession{ctx: ctx, conn: conn, socket: socket, waiting: waiting}, nil
}

// request runs the function `do`, which uses the connection. If the limit or the context ends first, request closes the
// connection.
func (s *agentSession) request(what string, limit time.Duration, do func() error) error {
	limited, stop := context.WithTimeout(s.ctx, limit)
	defer stop()
	closed := context.AfterFunc(limited, func() { _ = s.conn.Close() }) // unblocks do, which then returns an error
	defer closed()
	if s.waiting != nil {
		notice := time.AfterFunc(agentNoticeDelay,
			func() { s.waiting(fmt.Sprintf("the ssh-agent at %s to %s", s.socket, what)) })
		defer notice.Stop()
	}
	err := do()
	switch {
	case err == nil:
		return nil
	case limited.Err() != nil: // if s.ctx ended, its error is the cause
		return cmp.Or(s.ctx.Err(), muteAgent(s.socket, what, limit))
	}
	return err
}

func muteAgent(socket, what string, limit time.Duration) error {
	e := writ.Errorf(writ.CodeKeyUnusable, "the ssh-agent at %s did not %s within %s", socket, what, limit).
		WithHint("end that agent, or use a key without it: unset SSH_AUTH_SOCK, and --key FILE")
	e.Err = errAgentMute
	return e
}

// keys lists the keys and certificates that can sign.
func (s *agentSession) keys() (keys []ssh.PublicKey, err error) {
	err = s.request("list its keys", agentListLimit, func() (err error) {
		keys, err = sshsig.AgentKeys(s.conn)
		return err
	})
	return keys, err
}

// signer returns the signer of a key that the agent lists.
func (s *agentSession) signer(key ssh.PublicKey) (signer sshsig.Signer, err error) {
	err = s.request("list its keys", agentListLimit, func() (err error) {
		signer, err = sshsig.AgentSigner(s.conn, key)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &agentSigner{Signer: signer, session: s}, nil
}

// agentSigner signs with a key of the agent.
type agentSigner struct {
	sshsig.Signer
	session *agentSession
}

// Sign implements sshsig.Signer. It returns the context's error if the session's context ends first.
func (s *agentSigner) Sign(namespace sshsig.Namespace, text []byte) (armored []byte, err error) {
	err = s.session.request(s.task(), agentSignLimit, func() (err error) {
		armored, err = s.Signer.Sign(namespace, text)
		return err
	})
	if e, ok := errors.AsType[*writ.Error](err); ok && e.Hint == "" {
		err = e.WithHint("the agent may be locked (ssh-add -X), the confirmation may be refused, or the security key may be unplugged")
	}
	return armored, err
}

func (s *agentSigner) task() string {
	key := s.PublicKey()
	if t := key.Type(); t == ssh.KeyAlgoSKED25519 || t == ssh.CertAlgoSKED25519v01 {
		return fmt.Sprintf("sign with %s (touch the security key)", ssh.FingerprintSHA256(key))
	}
	return fmt.Sprintf("sign with %s (the agent may ask for a confirmation)", ssh.FingerprintSHA256(key))
}

// firstUsable returns the first key that `wanted` accepts, or nil. A nil `wanted` accepts all. An agent keeps
// certificates after they expire, so a key that can sign now comes before them.
func firstUsable(keys []ssh.PublicKey, wanted func(ssh.PublicKey) bool, now time.Time) ssh.PublicKey {
	var outdated ssh.PublicKey
	for _, k := range keys {
		switch {
		case wanted != nil && !wanted(k):
		case !isOutdated(k, now):
			return k
		case outdated == nil:
			outdated = k
		}
	}
	return outdated
}

// isOutdated reports whether a key is a certificate that is not valid at `now`.
func isOutdated(key ssh.PublicKey, now time.Time) bool {
	cert, ok := key.(*ssh.Certificate)
	seconds := uint64(max(0, now.Unix()))
	return ok && (seconds < cert.ValidAfter || seconds >= cert.ValidBefore)
}

// noUsableKey returns the error for an agent with n keys of accepted types, none of which can sign.
func noUsableKey(socket string, n int) error {
	if n == 0 {
		return writ.Errorf(writ.CodeKeyUnusable, "the ssh-agent at %s lists no ed25519 key", socket).
			WithHint("add one with ssh-add; `ssh-add -X` unlocks a locked agent, which lists no keys; or name a key file with --key")
	}
	return writ.Errorf(writ.CodeKeyUnusable, "the ssh-agent has no key that can sign here").
		WithHint("`ssh-add -l` lists its keys; add a key with ssh-add, or name a key file with --key")
}

// isAgentAway reports whether err means that the agent did not answer or accepts no connection.
func isAgentAway(err error) bool { return errors.Is(err, errAgentMute) || errors.Is(err, errAgentGone) }

// unknownBesideAgent returns the error for an unknown key in the default file while the ssh-agent does not answer. It
// includes agentErr, because the agent may hold a key that the roster knows.
func unknownBesideAgent(key *Key, agentErr error) error {
	return writ.Errorf(writ.CodeSignerUnknown, "the roster does not know the key %s, and %w", key.Spec, agentErr).
		WithHint("%s", writ.AsError(agentErr).Hint)
}
