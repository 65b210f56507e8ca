package client

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"writ"
	"writ/internal/test/testenv"
)

// startMuteAgent starts an ssh-agent that accepts connections and never answers. connected receives each connection.
func startMuteAgent(t *testing.T) (socket string, connected <-chan struct{}) {
	t.Helper()
	accepted := make(chan struct{}, 100)
	socket, stop, err := testenv.StartMuteAgent(func() { accepted <- struct{}{} })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return socket, accepted
}

func TestKeyFileNeedsNoAgent(t *testing.T) {
	socket, connected := startMuteAgent(t)
	home := t.TempDir()
	_, public := newKey(t, filepath.Join(home, "key"), "")
	k, err := Keys{Spec: "~/key", Home: home, AgentSocket: socket}.Open(t.Context(), func(ssh.PublicKey) bool { return true })
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	if !same(k.PublicKey(), public) {
		t.Errorf("opened %s", ssh.FingerprintSHA256(k.PublicKey()))
	}
	if len(connected) != 0 {
		t.Error("the agent was asked for a key that lies in a file")
	}
}

func TestMuteAgentEndsWithTheContext(t *testing.T) {
	home := t.TempDir()
	newKey(t, filepath.Join(home, "locked"), "secret")
	for _, spec := range []string{"agent", "agent:SHA256:abc", "~/locked", ""} {
		t.Run(spec, func(t *testing.T) {
			socket, connected := startMuteAgent(t)
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			go func() {
				<-connected
				stop()
			}()
			k, err := Keys{Spec: spec, Home: home, AgentSocket: socket}.Open(ctx, nil)
			if !errors.Is(err, context.Canceled) {
				t.Fatalf("%v, %v, want the error of the context", k, err)
			}
		})
	}
}

func TestMuteAgentIsNamed(t *testing.T) {
	socket, _ := startMuteAgent(t)
	s, err := dialAgent(t.Context(), socket, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = s.request("sign", time.Millisecond, func() error {
		_, err := s.conn.Read(make([]byte, 1))
		return err
	})
	if !errors.Is(err, errAgentMute) || writ.CodeOf(err) != writ.CodeKeyUnusable || !strings.Contains(err.Error(), socket) {
		t.Errorf("%v, want KEY_UNUSABLE with the agent's socket", err)
	}
	if k := (Keys{AgentSocket: socket}).without(err); k.mute == nil {
		t.Error("the agent would be asked again")
	}
}

func TestSlowAgentIsReported(t *testing.T) {
	socket, _ := startMuteAgent(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var reported string
	_, err := Keys{Spec: "agent", AgentSocket: socket, Waiting: func(what string) {
		reported = what
		stop()
	}}.Open(ctx, nil)
	if !errors.Is(err, context.Canceled) || !strings.Contains(reported, socket) {
		t.Errorf("%v; reported %q, want the agent's socket", err, reported)
	}
}
