package client

import (
	"crypto/ed25519"
	"encoding/pem"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"writ"
	"writ/identity"
)

// newKey makes a key and, if path is not "", its files as ssh-keygen makes them, locked with a passphrase unless that is "".
func newKey(t *testing.T, path, passphrase string) (ed25519.PrivateKey, ssh.PublicKey) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	key := identity.SSHKey(public)
	if path == "" {
		return private, key
	}
	var block *pem.Block
	if passphrase == "" {
		block, err = ssh.MarshalPrivateKey(private, "test")
	} else {
		block, err = ssh.MarshalPrivateKeyWithPassphrase(private, "test", []byte(passphrase))
	}
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{path: pem.EncodeToMemory(block), path + ".pub": ssh.MarshalAuthorizedKey(key)} {
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return private, key
}

// startAgent serves an ssh-agent with some keys and returns its socket.
func startAgent(t *testing.T, keys ...ed25519.PrivateKey) string {
	t.Helper()
	ring := agent.NewKeyring()
	for _, k := range keys {
		if err := ring.Add(agent.AddedKey{PrivateKey: k}); err != nil {
			t.Fatal(err)
		}
	}
	dir, err := os.MkdirTemp("", "writ") // the path of a socket must be short
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
			go func() { _ = agent.ServeAgent(ring, c) }() // ends with the connection
		}
	}()
	return l.Addr().String()
}

func TestKeyIsFound(t *testing.T) {
	home := t.TempDir()
	if err := os.Mkdir(filepath.Join(home, ".ssh"), 0o700); err != nil {
		t.Fatal(err)
	}
	_, usual := newKey(t, filepath.Join(home, ".ssh", "id_ed25519"), "")
	lockedKey, locked := newKey(t, filepath.Join(home, "locked"), "secret")
	agentFirst, _ := newKey(t, "", "")
	agentOther, other := newKey(t, "", "")
	socket := startAgent(t, agentFirst, agentOther, lockedKey)
	knowsOther := func(k ssh.PublicKey) bool { return same(k, other) }
	none := func(ssh.PublicKey) bool { return false }

	for _, tt := range []struct {
		what  string
		keys  Keys
		known func(ssh.PublicKey) bool
		want  ssh.PublicKey // nil for KEY_UNUSABLE
	}{
		{"nothing said", Keys{}, nil, usual},
		{"nothing said, with an agent that holds what the roster knows", Keys{AgentSocket: socket}, knowsOther, other},
		{"nothing said, with an agent that holds other keys", Keys{AgentSocket: socket}, none, usual},
		{"a file in the home directory", Keys{Spec: "~/.ssh/id_ed25519"}, knowsOther, usual},
		{"a locked file and nobody to ask", Keys{Spec: "~/locked"}, nil, nil},
		{"a locked file that the agent has opened", Keys{Spec: "~/locked", AgentSocket: socket}, nil, locked},
		{"the agent", Keys{Spec: "agent", AgentSocket: socket}, knowsOther, other},
		{"the agent, with nothing useful", Keys{Spec: "agent", AgentSocket: socket}, none, nil},
		{"a key of the agent", Keys{Spec: "agent:" + ssh.FingerprintSHA256(other), AgentSocket: socket}, none, other},
		{"no such key in the agent", Keys{Spec: "agent:" + ssh.FingerprintSHA256(usual), AgentSocket: socket}, nil, nil},
		{"no agent", Keys{Spec: "agent"}, nil, nil},
		{"an agent that is gone", Keys{Spec: "agent", AgentSocket: filepath.Join(home, "gone")}, nil, nil},
		{"no such file", Keys{Spec: "~/nothing"}, nil, nil},
	} {
		t.Run(tt.what, func(t *testing.T) {
			tt.keys.Home = home
			k, err := tt.keys.Open(tt.known)
			if tt.want == nil {
				if writ.CodeOf(err) != writ.CodeKeyUnusable {
					t.Fatalf("%v, want KEY_UNUSABLE", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer k.Close()
			if !same(k.PublicKey(), tt.want) {
				t.Fatalf("found %s (%s)", ssh.FingerprintSHA256(k.PublicKey()), k.Spec)
			}
			armored, err := k.Sign(identity.ScriptNamespace, []byte("text"))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := identity.VerifySignature(identity.ScriptNamespace, []byte("text"), armored); err != nil {
				t.Error(err)
			}
			again := Keys{Spec: k.Spec, AgentSocket: tt.keys.AgentSocket, Home: home}
			if same, err := again.Open(none); err != nil {
				t.Errorf("%q does not name it: %v", k.Spec, err)
			} else {
				same.Close()
			}
		})
	}
}

// TestAKeyInPlaceOfItsNameIsNotShown gives the text of a key where a file should be named, as a variable of a CI system easily does.
func TestAKeyInPlaceOfItsNameIsNotShown(t *testing.T) {
	home := t.TempDir()
	newKey(t, filepath.Join(home, "key"), "")
	text, err := os.ReadFile(filepath.Join(home, "key"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(text), "\n")
	for name, spec := range map[string]string{
		"whole": string(text), "in one line": strings.Join(lines, " "), "without its frame": lines[1], "after a space": " " + lines[1], "as a file in home": "~/" + string(text),
	} {
		_, err := Keys{Spec: spec, Home: home}.Open(nil)
		_, asOwner := Keys{Spec: spec, Home: home}.Owner(new(identity.Roster))
		for _, err := range []error{err, asOwner} {
			if e := writ.AsError(err); err == nil || e.Code != writ.CodeKeyUnusable || strings.Contains(e.Message+e.Hint, lines[1][:20]) || !strings.Contains(e.Hint, "file") {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

func TestPassphraseIsAskedOnlyForALockedFile(t *testing.T) {
	home := t.TempDir()
	_, locked := newKey(t, filepath.Join(home, "locked"), "secret")
	newKey(t, filepath.Join(home, "open"), "")
	asked := ""
	keys := Keys{Home: home, Passphrase: func(path string) ([]byte, error) {
		asked = filepath.Base(path)
		return []byte("secret"), nil
	}}
	keys.Spec = "~/open"
	if _, err := keys.Open(nil); err != nil || asked != "" {
		t.Errorf("an open file: %v, asked for %q", err, asked)
	}
	keys.Spec = "~/locked"
	k, err := keys.Open(nil)
	if err != nil || asked != "locked" || !same(k.PublicKey(), locked) {
		t.Errorf("a locked file: %v, asked for %q", err, asked)
	}
}

func TestFounderMayDoEverything(t *testing.T) {
	private, public := newKey(t, "", "")
	now := time.Now()
	roster, signed, err := Found(identity.NewSigner(private), "alice", now)
	if err != nil {
		t.Fatal(err)
	}
	verified, err := identity.VerifyRosters(identity.ClusterOf(public), [][]byte{signed}, now)
	if err != nil {
		t.Fatal(err)
	}
	for _, action := range []identity.Action{
		identity.ActionRead, identity.ActionSubmit, identity.ActionDestroy, identity.ActionControlRuns, identity.ActionScheduleNodes,
		identity.ActionAdmitNodes, identity.ActionCreateTokens, identity.ActionGovern,
	} {
		if err := verified.Allows("alice", action, "", now); err != nil {
			t.Errorf("%s: %v", action, err)
		}
	}
	if got := PrincipalOf(roster, public); got != "alice" {
		t.Errorf("the key belongs to %q", got)
	}
	if len(verified.ProjectsNamed(DefaultProject)) != 1 {
		t.Errorf("projects: %v", verified.Projects)
	}
}
