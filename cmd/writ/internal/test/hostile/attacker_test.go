//go:build linux

package hostile

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"writ"
	"writ/cmd/writ/internal/client"
	"writ/cmd/writ/internal/config"
	"writ/cmd/writ/internal/test/testcluster"
	"writ/coord/api/apiclient"
	"writ/identity"
)

// attackerVar marks the attacker's process.
const attackerVar = "WRIT_TEST_ATTACKER"

func TestMain(m *testing.M) {
	if os.Getenv(attackerVar) != "" {
		if err := beHostile(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "attacker:", err)
			os.Exit(1)
		}
		return
	}
	code := m.Run()
	if err := testcluster.RemoveBinaries(); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}

// powers holds the attacker's credentials and limits.
type powers struct {
	Rate    float64 // actions per second
	Most    int64   // limit of submissions and previews per attack, 0 for none
	Cluster writ.ClusterID
	Rosters string // directory
	Key     string // key file of a deployer of the project
	Project string
	API     string // URL of the honest coordinator
	From    string // its own address
	NodeAPI string // URL of the node API
	Redis   string // URL without a login
	Listen  string // address at which a supervisor expects a coordinator
}

// attack is an attack that runs until its context ends.
type attack struct {
	role, name string
	does       string // description for people
	do         func(ctx context.Context, a *attacker) error
}

func (a attack) String() string { return a.role + "/" + a.name }

func attacks() []attack { return slices.Concat(nodeAttacks, projectAttacks, coordinatorAttacks) }

// attacker is the state of the attacker's process.
type attacker struct {
	powers
	node       string // see order
	roster     *identity.Roster
	person     *client.Person
	datacenter writ.DatacenterID
	project    identity.Project
	api        *apiclient.Client
	http       *http.Client
	pace       *rate.Limiter
	hub        *hub
	number     atomic.Int64
	readers    []*reader // set once they have started

	mu     sync.Mutex
	counts map[string]int64
}

// count adds to a counter of the report.
func (a *attacker) count(what string, n int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.counts[what] += n
}

// outcome counts a result by its error code.
func (a *attacker) outcome(err error) {
	switch {
	case err == nil:
		a.count("done", 1)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
	default:
		if code := writ.CodeOf(err); code != writ.CodeInternal {
			a.count(string(code), 1)
			return
		}
		a.count("failed", 1)
	}
}

// flood repeats an action at the attacker's rate with some concurrency.
func (a *attacker) flood(ctx context.Context, atOnce int, do func(ctx context.Context) error) error {
	var all sync.WaitGroup
	for range atOnce {
		all.Go(func() {
			for a.pace.Wait(ctx) == nil {
				a.outcome(do(ctx))
			}
		})
	}
	all.Wait()
	return nil
}

// floodSome is flood for actions with long-lasting effects. In the gate it is limited.
func (a *attacker) floodSome(ctx context.Context, atOnce int, do func(ctx context.Context) error) error {
	var begun atomic.Int64
	return a.flood(ctx, atOnce, func(ctx context.Context) error {
		if a.Most > 0 && begun.Add(1) > a.Most {
			<-ctx.Done()
			return ctx.Err()
		}
		return do(ctx)
	})
}

// Commands for the attacker and its reports, as lines of JSON.
type (
	order struct {
		Attack string `json:"attack"` // "" to stop
		Node   string `json:"node"`   // data directory of the compromised node
	}
	report struct {
		Counts map[string]int64 `json:"counts"`
		Error  string           `json:"error,omitempty"`
	}
)

// beHostile runs attacks on command until in ends.
func beHostile(in io.Reader, out io.Writer) error {
	orders, answers := json.NewDecoder(in), json.NewEncoder(out)
	a := &attacker{counts: map[string]int64{}}
	if err := orders.Decode(&a.powers); err != nil {
		return err
	}
	if err := a.arm(context.Background()); err != nil {
		return err
	}
	var stop func() error
	for {
		if err := answers.Encode(a.say(nil)); err != nil {
			return err
		}
		var o order
		if err := orders.Decode(&o); err != nil {
			return nil // the parent is gone
		}
		if stop != nil {
			if err := stop(); err != nil {
				a.count("gave up: "+err.Error(), 1)
			}
			stop = nil
		}
		if a.node = o.Node; o.Attack != "" {
			a.forget()
			stop = a.begin(o.Attack)
			a.underway()
		}
	}
}

// underway waits up to a second for the first result of an attack. An attack whose node is suspended has no result.
func (a *attacker) underway() {
	for late := time.Now().Add(time.Second); time.Now().Before(late); time.Sleep(time.Millisecond) {
		a.mu.Lock()
		begun := len(a.counts) > 0
		a.mu.Unlock()
		if begun {
			return
		}
	}
}

// forget resets the counters.
func (a *attacker) forget() {
	a.mu.Lock()
	defer a.mu.Unlock()
	clear(a.counts)
}

// say returns the report of the attack.
func (a *attacker) say(err error) report {
	a.mu.Lock()
	defer a.mu.Unlock()
	r := report{Counts: maps.Clone(a.counts)}
	if err != nil {
		r.Error = err.Error()
	}
	return r
}

// begin starts an attack and returns a function that stops it.
func (a *attacker) begin(name string) (stop func() error) {
	all := append(attacks(), loggingIn, reading)
	at := slices.IndexFunc(all, func(one attack) bool { return one.String() == name })
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- all[at].do(ctx, a) }()
	return func() error {
		cancel()
		err := <-done
		if errors.Is(err, context.Canceled) {
			return nil
		}
		return err
	}
}

// arm prepares the attacks.
func (a *attacker) arm(ctx context.Context) (err error) {
	a.pace = rate.NewLimiter(rate.Limit(a.Rate), int(a.Rate/20)+1)
	if a.roster, err = config.RostersIn(a.Rosters, a.Cluster).Latest(); err != nil {
		return err
	}
	key, err := client.Keys{Spec: a.Key}.Open(ctx, nil)
	if err != nil {
		return err
	}
	a.person = &client.Person{Key: key, Name: client.PrincipalOf(a.roster, key.PublicKey()), Roster: a.roster}
	a.datacenter = a.roster.Datacenters[0].ID
	if a.project, err = client.Project(a.roster, a.Project); err != nil {
		return err
	}
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(a.From)}}
	reader, err := client.New(config.Context{Servers: []string{a.API}, Cluster: a.Cluster}, a.Key+".sessions", client.Keys{Spec: a.Key})
	if err != nil {
		return err
	}
	a.http = &http.Client{Timeout: time.Minute, Transport: reader.LoggedIn(&http.Transport{DialContext: dialer.DialContext, MaxIdleConnsPerHost: 256})}
	if a.api, err = apiclient.NewClient(a.API, apiclient.WithHTTPClient(a.http)); err != nil {
		return err
	}
	a.hub, err = listen(a)
	return err
}

// remote controls the attacker's process.
type remote struct {
	cmd *exec.Cmd
	in  *json.Encoder
	out *json.Decoder
	t   *testing.T
}

// lowest is the lowest scheduling priority.
const lowest = 19

// startAttacker starts the attacker with at most one CPU and the lowest priority.
func startAttacker(t *testing.T, p powers) *remote {
	t.Helper()
	r := &remote{cmd: exec.Command(os.Args[0]), t: t}
	r.cmd.Env = append(os.Environ(), attackerVar+"=1", "GOMAXPROCS=1")
	r.cmd.Stderr = os.Stderr
	in, err := r.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := r.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = r.cmd.Process.Kill()
		_ = r.cmd.Wait()
	})
	if err := syscall.Setpriority(syscall.PRIO_PROCESS, r.cmd.Process.Pid, lowest); err != nil {
		t.Fatal(err)
	}
	r.in, r.out = json.NewEncoder(in), json.NewDecoder(bufio.NewReader(out))
	if err := r.in.Encode(p); err != nil {
		t.Fatal(err)
	}
	r.hear()
	return r
}

// tell sends a command and returns the report of the previous attack.
func (r *remote) tell(attack, node string) report {
	r.t.Helper()
	if err := r.in.Encode(order{attack, node}); err != nil {
		r.t.Fatalf("tell the attacker: %v", err)
	}
	return r.hear()
}

func (r *remote) hear() (said report) {
	r.t.Helper()
	if err := r.out.Decode(&said); err != nil {
		r.t.Fatalf("the attacker is gone: %v", err)
	}
	return said
}

// cpuOf returns the CPU time of a process.
func cpuOf(pid int) time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	const user, system, ticks = 11, 12, 100 // fields after the name, and ticks per second
	_, after, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(after)
	used, _ := strconv.Atoi(fields[user])
	more, _ := strconv.Atoi(fields[system])
	return time.Duration(used+more) * time.Second / ticks
}

// sign returns a submission of an attacker's script.
func (a *attacker) sign(script client.Script, deadline time.Duration, params map[string]any) ([]byte, error) {
	o := client.Order{
		Script: script, Params: params, Datacenter: a.datacenter, Project: a.project, Expires: identity.DefaultValidity, Deadline: deadline,
		MaxCalls: identity.MaxCalls,
	}
	return o.Sign(a.roster, a.person)
}

// nodeKey returns the key of the compromised node.
func (a *attacker) nodeKey() (ed25519.PrivateKey, error) {
	text, err := os.ReadFile(filepath.Join(a.node, "node.key"))
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("the key of the node is no PEM")
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, err
	}
	return key.(ed25519.PrivateKey), nil
}
