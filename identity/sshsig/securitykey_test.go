//go:build linux

package sshsig

import (
	"crypto/ed25519"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"writ/internal/test/testenv"
)

// Promise: Signatures and rosters: A key on a FIDO token signs through the ssh-agent, and by `ssh-keygen -Y sign`.
// How: OpenSSH makes and uses the key with a token in software, and each side verifies the signature.
func TestSecurityKeyOfOpenSSHSigns(t *testing.T) {
	keygen, gcc := testenv.Need(t, "ssh-keygen"), testenv.Need(t, "gcc")
	dir := t.TempDir()
	token := filepath.Join(dir, "token.so")
	socket := serveToken(t, dir)
	run := func(name string, args ...string) {
		t.Helper()
		cmd := exec.Command(name, args...)
		cmd.Env = append(os.Environ(), "SSH_SK_PROVIDER="+token, "SSH_AUTH_SOCK="+filepath.Join(dir, "agent"))
		if said, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s %q: %v\n%s", name, args, err, said)
		}
	}
	run(gcc, "-shared", "-fPIC", "-o", token, "-DSOCKET=\""+socket+"\"", "testdata/securitykey.c")
	key := filepath.Join(dir, "key")
	run(keygen, "-q", "-t", "ed25519-sk", "-N", "", "-f", key)
	line, err := os.ReadFile(key + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	public, _, _, _, err := ssh.ParseAuthorizedKey(line)
	if err != nil || public.Type() != ssh.KeyAlgoSKED25519 {
		t.Fatalf("ssh-keygen made %s, %v", line, err)
	}
	text := write(t, dir, "text", []byte("a text"))

	run(keygen, "-q", "-Y", "sign", "-n", string(ScriptNamespace), "-f", key, text)
	theirs, err := os.ReadFile(text + ".sig")
	if err != nil {
		t.Fatal(err)
	}
	signed, err := Verify(ScriptNamespace, []byte("a text"), theirs)
	if err != nil || string(signed.Marshal()) != string(public.Marshal()) {
		t.Errorf("the signature of ssh-keygen: %v", err)
	}

	signer := agentWithToken(t, filepath.Join(filepath.Dir(keygen), "ssh-agent"), dir, token, public, func() {
		run(filepath.Join(filepath.Dir(keygen), "ssh-add"), "-q", "-S", token, key)
	})
	ours, err := signer.Sign(ScriptNamespace, []byte("a text"))
	if err != nil {
		t.Fatal(err)
	}
	allowed := write(t, dir, "allowed", append([]byte("alice "), line...))
	verify := exec.Command(keygen, "-Y", "verify", "-f", allowed, "-I", "alice", "-n", string(ScriptNamespace), "-s",
		write(t, dir, "ours.sig", ours))
	verify.Stdin = strings.NewReader("a text")
	if said, err := verify.CombinedOutput(); err != nil {
		t.Errorf("ssh-keygen on the signature of the agent: %v\n%s", err, said)
	}
	if _, err := Verify(ScriptNamespace, []byte("a text"), ours); err != nil {
		t.Errorf("the signature of the agent: %v", err)
	}
}

// serveToken answers the requests of testdata/securitykey.c with a token in software, and returns its socket.
func serveToken(t *testing.T, dir string) (socket string) {
	t.Helper()
	token := securityKey("carol")
	socket = filepath.Join(dir, "token")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() {
		_ = listener.Close()
		<-done
	})
	go func() {
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			request, _ := io.ReadAll(conn) // a request that is cut off has no answer
			switch {
			case len(request) == 0:
			case request[0] == 'p':
				_, _ = conn.Write(token.private.Public().(ed25519.PublicKey))
			default:
				signed, _ := token.signed(request[1:])
				_, _ = conn.Write(ed25519.Sign(token.private, signed))
			}
			_ = conn.Close()
		}
	}()
	return socket
}

// agentWithToken starts an ssh-agent that may use a token, runs add to load the key, and returns its signer.
func agentWithToken(t *testing.T, program, dir, token string, key ssh.PublicKey, add func()) Signer {
	t.Helper()
	socket := filepath.Join(dir, "agent")
	agent := exec.Command(program, "-D", "-a", socket, "-P", filepath.Dir(token)+"/*")
	out, err := agent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := agent.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = agent.Process.Kill()
		_ = agent.Wait()
	})
	if _, err := out.Read(make([]byte, 1)); err != nil { // it prints the socket when it listens
		t.Fatal(err)
	}
	add()
	conn, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	signer, err := AgentSigner(conn, key)
	if err != nil {
		t.Fatal(err)
	}
	return signer
}
