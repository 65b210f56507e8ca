package transfer

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"writ"
	"writ/identity/envelope"
	"writ/internal/test/testenv"
	"writ/sal"
	"writ/sal/btrfs"
	"writ/sal/btrfs/btrfstest"
	"writ/sal/catalog"
	"writ/sal/directory"
	"writ/sal/saltest"
	"writ/sal/volume"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	cluster    = writ.ClusterID("c1")
	datacenter = writ.DatacenterID("0192f6c2-0000-7000-8000-00000000000d")
)

func newKey() ed25519.PrivateKey {
	_, key, _ := ed25519.GenerateKey(nil) // crypto/rand never fails
	return key
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// openTrees opens trees that call step before each change.
type openTrees func(dir string, step func(string)) sal.Trees

// kinds are the kinds of trees for volumes.
var kinds = map[string]openTrees{
	"directory": func(dir string, step func(string)) sal.Trees { return &directory.Trees{Dir: dir, Step: step} },
	"btrfs":     func(dir string, step func(string)) sal.Trees { return btrfs.New(btrfs.Config{Dir: dir, Step: step}) },
}

// onEach runs a test with each kind of trees on each node.
func onEach(t *testing.T, test func(t *testing.T, from, to *node)) {
	t.Parallel()
	for there, givers := range kinds {
		for here, fetchers := range kinds {
			t.Run(there+" to "+here, func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				if there == "btrfs" || here == "btrfs" {
					dir = btrfstest.NewHosts(t).New(t)
				}
				s := &fixture{supervisor: newKey()}
				test(t, s.node(t, "n1", filepath.Join(dir, "n1"), givers), s.node(t, "n2", filepath.Join(dir, "n2"), fetchers))
			})
		}
	}
}

// plain returns two nodes with directories.
func plain(t *testing.T) (from, to *node) {
	t.Helper()
	s, dir := &fixture{supervisor: newKey()}, t.TempDir()
	return s.node(t, "n1", filepath.Join(dir, "n1"), kinds["directory"]), s.node(t, "n2", filepath.Join(dir, "n2"), kinds["directory"])
}

// fixture is a datacenter whose supervisor is the test.
type fixture struct{ supervisor ed25519.PrivateKey }

// node is a node with volumes.
type node struct {
	testing.TB
	*fixture
	name  string
	id    writ.NodeID
	key   ed25519.PrivateKey
	dir   string
	trees openTrees

	driver  *volume.Driver
	turn    sync.Mutex // serialises operations on its volumes
	holds   atomic.Int64
	busy    atomic.Int64 // number of further holds that fail because another operation runs
	behind  atomic.Int64 // number of further requests with an unknown supervisor key
	address string
	stop    func()
	sent    atomic.Int64 // encrypted bytes on its connections
	cutAt   atomic.Int64 // each connection is cut after this number of bytes, unless it is 0
	log     testenv.Log
	dead    atomic.Bool // it has crashed: its connections are dead
	onStep  func()      // called before each change of its disk; nil for none
}

func (s *fixture) node(t testing.TB, name, dir string, trees openTrees) *node {
	t.Helper()
	n := &node{TB: t, fixture: s, name: name, id: writ.NodeID(name), key: newKey(), dir: dir, trees: trees}
	n.restart()
	return n
}

// restart opens everything again, like a new process.
func (n *node) restart() {
	n.Helper()
	n.kill()
	n.dead.Store(false)
	n.onStep = nil
	step := func(string) {
		if n.onStep != nil {
			n.onStep()
		}
	}
	n.driver = &volume.Driver{
		Dir: filepath.Join(n.dir, "volumes"), Trees: n.trees(filepath.Join(n.dir, "pool"), step), Step: step,
	}
}

// give makes the node serve archives, by shipper instead of the driver's unless nil.
func (n *node) give(shipper sal.Shipper) {
	n.Helper()
	if shipper == nil {
		shipper = n.driver
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(n, err)
	n.address = listener.Addr().String()
	keys := envelope.Only(n.supervisor.Public().(ed25519.PublicKey))
	g := &Giver{
		Node: n.id, Cluster: cluster, Datacenter: datacenter, Key: n.key,
		Keys: func(id envelope.KeyID) (ed25519.PublicKey, error) {
			if n.behind.Add(-1) >= 0 {
				return envelope.Only()(id)
			}
			return keys(id)
		},
		Hold: func(context.Context, sal.Shipment) (func(), error) {
			if n.holds.Add(1); n.busy.Add(-1) >= 0 {
				return nil, writ.Errorf(writ.CodeResourceBusy, "another operation runs")
			}
			n.turn.Lock()
			return n.turn.Unlock, nil
		},
		Shipper: func(kind writ.ResourceKind) sal.Shipper {
			if kind != writ.KindVolume {
				return nil
			}
			return shipper
		},
		Rate: 1 << 30, // practically unlimited
		Now:  time.Now, Log: slog.New(slog.NewTextHandler(io.MultiWriter(n.Output(), &n.log), nil)),
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(n.Context()))
	ended := make(chan error, 1)
	go func() { ended <- g.Serve(ctx, &counting{listener, n}) }()
	n.stop = func() {
		cancel()
		if err := <-ended; err != nil {
			n.Errorf("giving ended with %v", err)
		}
	}
	n.Cleanup(n.kill)
}

// kill stops the node's server at any point.
func (n *node) kill() {
	if n.stop != nil {
		n.stop()
		n.stop = nil
	}
}

// counting counts the bytes that a node sends, and cuts connections.
type counting struct {
	net.Listener
	*node
}

func (c *counting) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	return &counted{Conn: conn, node: c.node}, err
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.node.dead.Load() {
		_ = c.Close()
		return 0, errors.New("the node has crashed")
	}
	return n, err
}

type counted struct {
	net.Conn
	node *node
	sent int64
}

func (c *counted) Write(p []byte) (int, error) {
	if most := c.node.cutAt.Load(); most > 0 && c.sent+int64(len(p)) > most || c.node.dead.Load() {
		_ = c.Close()
		return 0, errors.New("cut by the test")
	}
	n, err := c.Conn.Write(p)
	c.sent += int64(n)
	c.node.sent.Add(int64(n))
	return n, err
}

// do executes an operation on a volume, with the UID "uid of" its name.
func (n *node) do(ctx context.Context, operation, name string, args map[string]any, origin sal.Origin) (map[string]any, error) {
	n.Helper()
	o, ok := catalog.Lookup(operation)
	if !ok {
		n.Fatalf("unknown operation %s", operation)
	}
	decoded, err := o.Decode(args)
	must(n, err)
	outcome, err := n.driver.Do(ctx, sal.Request{
		Operation: o, Resource: saltest.Resource(writ.KindVolume, name), UID: saltest.RefTo(writ.KindVolume, name).UID, Args: decoded, Key: "k",
		Origin: origin, Progress: func(text string) { n.Log(text) },
	})
	return outcome.Values, err
}

// made makes a volume with mib MiB of data and returns its directory.
func (n *node) made(name string, mib int) string {
	n.Helper()
	values, err := n.do(n.Context(), "volume.create", name, map[string]any{"size_gib": int64(1)}, nil)
	must(n, err)
	dir := values["path"].(string)
	noise := make([]byte, mib<<20)
	for i := range noise { // without repetition in steps of a block
		noise[i] = byte(i ^ i>>8 ^ i>>13 ^ i>>17)
	}
	must(n, os.MkdirAll(filepath.Join(dir, "some", "where"), 0o750))
	must(n, os.WriteFile(filepath.Join(dir, "noise"), noise, 0o640))
	must(n, os.WriteFile(filepath.Join(dir, "some", "where", "small"), []byte("before"), 0o600))
	must(n, os.Symlink("../noise", filepath.Join(dir, "some", "link")))
	f, err := os.Create(filepath.Join(dir, "sparse"))
	must(n, err)
	_, err = f.WriteAt([]byte("an island"), 30<<20)
	must(n, errors.Join(err, f.Truncate(64<<20), f.Close()))
	return dir
}

// grant returns a transfer grant for a volume of another node.
func (s *fixture) grant(from, to *node, name string) writ.TransferGrant {
	return writ.TransferGrant{
		Cluster: cluster, Datacenter: datacenter, Transfer: "run-1-" + name, From: from.id, FromName: from.name, FromKey: from.key.Public().(ed25519.PublicKey),
		Address: from.address, To: to.id, ToKey: to.key.Public().(ed25519.PublicKey),
		Resource: saltest.Resource(writ.KindVolume, name), UID: saltest.RefTo(writ.KindVolume, name).UID, Expires: time.Now().Add(time.Hour).UnixMilli(),
	}
}

// origin returns a Fetcher for a volume of another node.
func (n *node) origin(from *node, name string, change func(w *writ.TransferGrant)) *Fetcher {
	n.Helper()
	w := n.grant(from, n, name)
	if change != nil {
		change(&w)
	}
	return n.originBy(n.supervisor, w)
}

func (n *node) originBy(supervisor ed25519.PrivateKey, w writ.TransferGrant) *Fetcher {
	n.Helper()
	signed, err := envelope.Sign(envelope.TransferGrant, supervisor, w)
	must(n, err)
	return &Fetcher{Key: n.key, Grant: w, Signed: signed, Patience: time.Nanosecond, Allow: loopback, Progress: func(text string) { n.Log(text) }}
}

// loopback is the address range of test nodes.
var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}

// copies returns the arguments of volume.copy.
func copies(name string, more ...any) map[string]any {
	args := map[string]any{"from": saltest.RefTo(writ.KindVolume, name), "size_gib": int64(1)}
	for i := 0; i < len(more); i += 2 {
		args[more[i].(string)] = more[i+1]
	}
	return args
}

// shape describes the whole content of a volume as text: modes, times, sizes, link targets, digests of files, and
// whether the disk has holes.
func (n *node) shape(name string) string {
	n.Helper()
	v, err := n.driver.Volume(n.Context(), saltest.Resource(writ.KindVolume, name).Project, writ.Ref{Kind: writ.KindVolume, Name: name})
	must(n, err)
	var b strings.Builder
	err = filepath.WalkDir(v.Dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%s %s", strings.TrimPrefix(path, v.Dir), info.Mode())
		switch info.Mode().Type() {
		case fs.ModeSymlink:
			to, err := os.Readlink(path)
			fmt.Fprintf(&b, " to %s\n", to)
			return err
		case 0:
			text, err := os.ReadFile(path)
			fmt.Fprintf(&b, " %d %x", len(text), sha256.Sum256(text))
			if err != nil {
				return err
			}
			if info.Sys().(*syscall.Stat_t).Blocks*512 < info.Size()/2 {
				b.WriteString(" with holes")
			}
		}
		fmt.Fprintf(&b, " %s\n", info.ModTime().UTC().Format(time.RFC3339Nano))
		return nil
	})
	must(n, err)
	return b.String()
}

// clean fails the test if data for or from another node is left.
func (n *node) clean() {
	n.Helper()
	err := filepath.WalkDir(n.dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && (d.Name()[0] == '~' || filepath.Base(filepath.Dir(path)) == "arriving") {
			n.Errorf("%s is left", path)
		}
		if path == n.dir && errors.Is(err, fs.ErrNotExist) {
			return nil // it has no files yet
		}
		return err
	})
	must(n, err)
}

// partial returns the size of a partly received archive, or -1.
func (n *node) partial() int64 {
	n.Helper()
	all, err := filepath.Glob(filepath.Join(n.dir, "volumes", "arriving", "*"))
	must(n, err)
	if len(all) != 1 {
		return -1
	}
	info, err := os.Stat(all[0])
	must(n, err)
	return info.Size()
}

// liar gives arbitrary archives.
type liar struct {
	sal.Shipper
	archive sal.Archive
	refuses error
	asked   atomic.Int64
	last    atomic.Pointer[sal.Shipment]
}

func (l *liar) Ship(_ context.Context, s sal.Shipment) (sal.Archive, error) {
	l.asked.Add(1)
	l.last.Store(&s)
	l.archive.Close = func() error { return nil }
	return l.archive, l.refuses
}

func (l *liar) Shipped(context.Context, sal.Shipment) error { return nil }

// text returns a Write function for an archive that writes a text.
func text(text []byte) func(ctx context.Context, to io.Writer) error {
	return func(_ context.Context, to io.Writer) error {
		_, err := to.Write(text)
		return err
	}
}
