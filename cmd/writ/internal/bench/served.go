package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"writ"
	"writ/cmd/writ/internal/client"
	"writ/cmd/writ/internal/config"
	"writ/coord"
	"writ/coord/api"
	"writ/internal/sleep"
)

// Directories of a site.
const (
	coordinatorDir = "coordinator"
	clientDir      = "client"
)

// served is a coordinator in a child process. One event stream reports the ends of all runs. It implements front.
type served struct {
	ledger  string // file with the address of the ledger's database, "" for a ledger in a file
	process *child
	url     string
	client  *client.Client
	events  *events

	ctx   context.Context // ends when the stream fails
	stop  context.CancelFunc
	works *errgroup.Group
}

// begin starts the coordinator of the site in dir. The site's directories must contain the rosters of the owner `of`.
func (s *served) begin(ctx context.Context, dir string, of *owner, like *cluster) (err error) {
	address, err := freeAddress()
	if err != nil {
		return fmt.Errorf("find a port for the coordinator: %w", err)
	}
	s.url, s.events = "http://"+address, newEvents()
	flags := []string{
		"--data", filepath.Join(dir, coordinatorDir), "--listen", address,
		"--max-streams", strconv.Itoa(coord.MostStreams),
	}
	if s.ledger != "" {
		flags = append(flags, "--ledger", "@"+s.ledger)
	}
	flags = append(flags, like.profileOf(CoordinatorName)...)
	s.process, err = startChild(ctx, like.logs, new(memory), nil, CoordinatorName, flags...)
	if err != nil {
		return err
	}
	s.client, err = client.New(config.Context{
		Name: "bench", Servers: []string{s.url}, Cluster: of.person.Roster.Cluster,
	}, filepath.Join(dir, clientDir), client.Keys{})
	if err != nil {
		return err
	}
	s.ctx, s.stop = context.WithCancel(ctx)
	s.works, s.ctx = errgroup.WithContext(s.ctx)
	ready := make(chan struct{})
	s.works.Go(func() error { return s.follow(s.ctx, ready) })
	select {
	case <-ready:
		return nil
	case <-s.ctx.Done():
		return s.works.Wait()
	}
}

// close ends the stream and the process.
func (s *served) close() (err error) {
	if s.stop != nil {
		s.stop()
		err = s.works.Wait()
	}
	if s.process != nil {
		err = errors.Join(err, s.process.end())
	}
	return err
}

// reopenAfter is the pause before a lost stream is opened again.
const reopenAfter = 100 * time.Millisecond

// follow receives the events of all datacenters until ctx ends. It closes ready when the first stream is open.
func (s *served) follow(ctx context.Context, ready chan<- struct{}) error {
	params := &api.WatchParams{Topics: []api.Topic{api.TopicSubmission, api.TopicRun, api.TopicNode}}
	for first := true; ; first = false {
		response, err := s.client.API.Watch(ctx, params)
		if err := api.ErrorOf(response, err); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("follow the coordinator: %w", err)
		}
		if first {
			close(ready)
		}
		for m, err := range api.Messages(response.Body) {
			if err != nil {
				break
			}
			params.LastEventID = &m.ID
			if m.Reset {
				_ = response.Body.Close() // the stream is given up
				return errors.New("the coordinator deleted events before they were read")
			}
			s.events.add(m.Event)
		}
		_ = response.Body.Close() // the stream has ended
		if sleep.For(ctx, reopenAfter) != nil {
			return nil
		}
	}
}

func (s *served) address() string { return s.url }

func (s *served) news() *events { return s.events }

func (s *served) submit(ctx context.Context, signed []byte) (writ.RunID, error) {
	submission, err := s.client.Orders.Submit(ctx, signed)
	return submission.Run, err
}

func (s *served) decide(ctx context.Context, signed []byte) error {
	_, err := api.Answer[api.StatementAnswer](s.client.API.SubmitStatementWithBody(ctx, api.SignedType,
		bytes.NewReader(signed)))
	return err
}

// connectedEvery is the interval at which awaitSupervisor asks.
const connectedEvery = 100 * time.Millisecond

func (s *served) awaitSupervisor(ctx context.Context, datacenter writ.DatacenterID) error {
	for {
		list, err := api.Answer[api.DatacenterList](s.client.API.ListDatacenters(ctx))
		if err != nil {
			return fmt.Errorf("list the datacenters: %w", err)
		}
		for _, d := range list.Items {
			if d.ID == datacenter && !d.Connected.IsZero() {
				return nil
			}
		}
		if err := sleep.For(ctx, connectedEvery); err != nil {
			return context.Cause(ctx)
		}
	}
}

// beginSite starts a coordinator and a number of datacenters without nodes. Each datacenter has the settings of `like`.
// The stores are databases of the PostgreSQL server at the URL store, or files if store is "". The caller must close
// the result even after an error.
func beginSite(ctx context.Context, like cluster, datacenters int, store string) (*own, error) {
	o := &own{served: &served{}}
	var dirs []string
	for i := range datacenters {
		c := like
		c.dir = filepath.Join(like.dir, fmt.Sprintf("dc%d", i+1))
		o.clusters = append(o.clusters, &c)
		dirs = append(dirs, filepath.Join(c.dir, supervisorDir))
	}
	var of owner
	err := of.found(false, dirs, filepath.Join(like.dir, coordinatorDir), filepath.Join(like.dir, clientDir))
	if err != nil {
		return o, err
	}
	if store != "" {
		if err := o.useDatabases(ctx, like.dir, store); err != nil {
			return o, err
		}
	}
	if err := o.served.begin(ctx, like.dir, &of, &like); err != nil {
		return o, err
	}
	var starts errgroup.Group
	for i, c := range o.clusters {
		c.open(o.served.ctx)
		c.owner, c.datacenter, c.front = &of, &of.person.Roster.Datacenters[i], o.served
		starts.Go(c.start)
	}
	return o, starts.Wait()
}

// useDatabases creates a database for the ledger and for each journal. Files pass their addresses to the processes,
// because an address may have a password.
func (o *own) useDatabases(ctx context.Context, dir, store string) (err error) {
	if o.postgres, err = newPostgres(ctx, store); err != nil {
		return err
	}
	o.served.ledger = filepath.Join(dir, "ledger.url")
	files := []string{o.served.ledger}
	for _, c := range o.clusters {
		c.journal = filepath.Join(c.dir, "journal.url")
		files = append(files, c.journal)
	}
	for _, file := range files {
		address, err := o.postgres.database(ctx)
		if err != nil {
			return err
		}
		if err := os.WriteFile(file, []byte(address), 0o600); err != nil {
			return fmt.Errorf("write the address of a database: %w", err)
		}
	}
	return nil
}
