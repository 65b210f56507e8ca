package client

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"writ"
	"writ/identity/sshsig"
)

// serveAgent listens as an ssh-agent and serves each connection with serve, which closes it.
func serveAgent(t *testing.T, serve func(net.Conn)) (socket string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "writ") // socket paths must be short
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(dir, "agent"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		l.Close()
		os.RemoveAll(dir)
	})
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go serve(c)
		}
	}()
	return l.Addr().String()
}

// oddAgent is an agent with its own way to sign.
type oddAgent struct {
	agent.Agent
	sign func(agent.Agent, ssh.PublicKey, []byte) (*ssh.Signature, error)
}

func (a oddAgent) Sign(key ssh.PublicKey, data []byte) (*ssh.Signature, error) {
	return a.sign(a.Agent, key, data)
}

func TestAgentThatCannotSignIsExplained(t *testing.T) {
	first, public := newKey(t, "", "")
	second, other := newKey(t, "", "")
	for name, sign := range map[string]func(agent.Agent, ssh.PublicKey, []byte) (*ssh.Signature, error){
		"refuses":                func(agent.Agent, ssh.PublicKey, []byte) (*ssh.Signature, error) { return nil, io.EOF },
		"signs with another key": func(a agent.Agent, _ ssh.PublicKey, data []byte) (*ssh.Signature, error) { return a.Sign(other, data) },
		"signs another text": func(a agent.Agent, key ssh.PublicKey, _ []byte) (*ssh.Signature, error) {
			return a.Sign(key, []byte("x"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			ring := agent.NewKeyring()
			for _, k := range []agent.AddedKey{{PrivateKey: first}, {PrivateKey: second}} {
				if err := ring.Add(k); err != nil {
					t.Fatal(err)
				}
			}
			socket := serveAgent(t, func(c net.Conn) { _ = agent.ServeAgent(oddAgent{ring, sign}, c); c.Close() })
			k, err := Keys{Spec: "agent", AgentSocket: socket}.Open(t.Context(), func(k ssh.PublicKey) bool { return same(k, public) })
			if err != nil {
				t.Fatal(err)
			}
			defer k.Close()
			_, err = k.Sign(sshsig.ScriptNamespace, []byte("text"))
			if e := writ.AsError(err); e.Code != writ.CodeKeyUnusable || !strings.Contains(e.Hint, "locked") {
				t.Errorf("%v (%s, hint %q)", err, e.Code, e.Hint)
			}
		})
	}
}

// A request ends also if the agent stops in the middle of its answer.
func TestAgentThatStopsAnsweringIsLeft(t *testing.T) {
	private, _ := newKey(t, "", "")
	ring := agent.NewKeyring()
	if err := ring.Add(agent.AddedKey{PrivateKey: private}); err != nil {
		t.Fatal(err)
	}
	stopped := make(chan struct{}, 10)
	socket := serveAgent(t, func(c net.Conn) {
		_ = agent.ServeAgent(oddAgent{ring, func(agent.Agent, ssh.PublicKey, []byte) (*ssh.Signature, error) {
			_, _ = c.Write(binary.BigEndian.AppendUint32(nil, 100)) // an answer of 100 bytes without its bytes
			stopped <- struct{}{}
			_, _ = io.Copy(io.Discard, c) // until the client closes the connection
			return nil, io.ErrUnexpectedEOF
		}}, c)
		c.Close()
	})
	s, err := dialAgent(t.Context(), socket, nil)
	if err != nil {
		t.Fatal(err)
	}
	k, err := chooseFromAgent(s, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = s.request("sign", time.Millisecond, func() error {
		_, err := k.Signer.(*agentSigner).Signer.Sign(sshsig.ScriptNamespace, []byte("text"))
		return err
	})
	<-stopped
	if !isAgentAway(err) {
		t.Errorf("%v, want an agent that did not answer", err)
	}
}

func TestLockedAgentIsExplained(t *testing.T) {
	private, _ := newKey(t, "", "")
	ring := agent.NewKeyring()
	if err := ring.Add(agent.AddedKey{PrivateKey: private}); err != nil {
		t.Fatal(err)
	}
	if err := ring.Lock([]byte("secret")); err != nil {
		t.Fatal(err)
	}
	socket := serveAgent(t, func(c net.Conn) { _ = agent.ServeAgent(ring, c); c.Close() })
	_, err := Keys{Spec: "agent", AgentSocket: socket}.Open(t.Context(), nil)
	if e := writ.AsError(err); e.Code != writ.CodeKeyUnusable || !strings.Contains(e.Hint, "ssh-add -X") {
		t.Errorf("%v (%s, hint %q)", err, e.Code, e.Hint)
	}
}

// SSH_AUTH_SOCK often names an agent that has ended. If no other key signs, the message names that.
func TestGoneAgentIsNamed(t *testing.T) {
	home := t.TempDir()
	file := filepath.Join(home, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	none := func(ssh.PublicKey) bool { return false }
	check := func(t *testing.T, socket string, code writ.Code) {
		t.Helper()
		_, err := Keys{Home: home, AgentSocket: socket}.Open(t.Context(), none)
		if e := writ.AsError(err); e.Code != code || !strings.Contains(err.Error(), socket) || e.Hint == "" {
			t.Errorf("%s: %v (%s, hint %q)", socket, err, e.Code, e.Hint)
		}
	}
	sockets := []string{filepath.Join(home, "gone"), home, file}
	for _, socket := range sockets {
		check(t, socket, writ.CodeKeyUnusable)
	}
	if err := os.Mkdir(filepath.Join(home, ".ssh"), 0o700); err != nil {
		t.Fatal(err)
	}
	newKey(t, filepath.Join(home, ".ssh", "id_ed25519"), "")
	for _, socket := range sockets {
		check(t, socket, writ.CodeSignerUnknown)
	}
	if k, err := (Keys{Home: home, AgentSocket: file}).Open(t.Context(), func(ssh.PublicKey) bool { return true }); err != nil {
		t.Errorf("a known key needs no agent: %v", err)
	} else {
		k.Close()
	}
}

// An agent and a directory keep certificates after they expire.
func TestExpiredCertificateReplacesNoKey(t *testing.T) {
	home := t.TempDir()
	_, public := newKey(t, filepath.Join(home, "key"), "")
	ca, _ := newKey(t, "", "")
	signer, err := ssh.NewSignerFromSigner(ca)
	if err != nil {
		t.Fatal(err)
	}
	certificate := func(from, until time.Time) *ssh.Certificate {
		cert := &ssh.Certificate{Key: public, CertType: ssh.UserCert, ValidAfter: uint64(from.Unix()), ValidBefore: uint64(until.Unix())}
		if err := cert.SignCert(rand.Reader, signer); err != nil {
			t.Fatal(err)
		}
		return cert
	}
	now := time.Now()
	expired := certificate(now.Add(-time.Hour), now.Add(-time.Minute))
	early := certificate(now.Add(time.Minute), now.Add(time.Hour))
	valid := certificate(now.Add(-time.Hour), now.Add(time.Hour))
	all := func(ssh.PublicKey) bool { return true }
	onlyExpired := func(k ssh.PublicKey) bool { return same(k, expired) }
	for _, tt := range []struct {
		keys   []ssh.PublicKey
		wanted func(ssh.PublicKey) bool
		want   ssh.PublicKey
	}{
		{[]ssh.PublicKey{expired, public}, all, public},
		{[]ssh.PublicKey{expired, early, valid, public}, nil, valid},
		{[]ssh.PublicKey{expired, valid}, onlyExpired, expired},
		{[]ssh.PublicKey{public}, onlyExpired, nil},
	} {
		got := firstUsable(tt.keys, tt.wanted, now)
		if (got == nil) != (tt.want == nil) || got != nil && !bytes.Equal(got.Marshal(), tt.want.Marshal()) {
			t.Errorf("of %d keys: %v, want %v", len(tt.keys), got, tt.want)
		}
	}
	if err := os.WriteFile(filepath.Join(home, "key-cert.pub"), ssh.MarshalAuthorizedKey(expired), 0o600); err != nil {
		t.Fatal(err)
	}
	k, err := Keys{Spec: "~/key", Home: home}.Open(t.Context(), all)
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	if !same(k.PublicKey(), public) {
		t.Error("the expired certificate replaces the key")
	}
}
