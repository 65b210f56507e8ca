package bench

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"golang.org/x/sync/errgroup"

	"writ"
	"writ/cmd/writ/internal/bench/peer"
	"writ/coord/api"
)

// StreamsReport holds the results of sequential calls while clients have event streams open. This process reads all
// streams, so its CPU time is a part of the cost.
type StreamsReport struct {
	Streams int         `json:"streams"`
	OfRuns  LoadFigures `json:"of_runs"` // each stream has the events of one run
	OfAll   LoadFigures `json:"of_all"`  // each stream has all events
}

// streams measures runs of sequential calls while streams of the coordinator are open.
func (g *Growth) streams(ctx context.Context, m *meter, steps peer.Order, idle IdleFigures) (*StreamsReport, error) {
	s := m.own.served
	r := &StreamsReport{Streams: g.Streams}
	runs := s.events.endedRuns()
	ofRun := func(ctx context.Context, i int) (*http.Response, error) {
		return s.client.API.WatchRun(ctx, runs[i%len(runs)], nil)
	}
	ofAll := func(ctx context.Context, _ int) (*http.Response, error) { return s.client.API.Watch(ctx, nil) }
	for _, kind := range []struct {
		name  string
		watch func(ctx context.Context, i int) (*http.Response, error)
		to    *LoadFigures
	}{{"one run", ofRun, &r.OfRuns}, {"all runs", ofAll, &r.OfAll}} {
		err := watched(ctx, g.Streams, kind.watch, func() (err error) {
			*kind.to, err = m.load(ctx, steps, idle)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("with %d streams of %s: %w", g.Streams, kind.name, err)
		}
		g.Note("%d streams of %s each: %.1f runs/s", g.Streams, kind.name, kind.to.RunsPerSecond)
	}
	return r, nil
}

// watched calls do while n streams are open, which watch opens. It reads all their events.
func watched(
	ctx context.Context, n int, watch func(ctx context.Context, i int) (*http.Response, error), do func() error,
) error {
	ctx, stop := context.WithCancel(ctx)
	var readers errgroup.Group
	defer func() {
		stop()
		_ = readers.Wait() // each ends with ctx
	}()
	for i := range n {
		response, err := watch(ctx, i)
		if err := api.ErrorOf(response, err); err != nil {
			return fmt.Errorf("open a stream: %w", err)
		}
		readers.Go(func() error {
			_, err := io.Copy(io.Discard, response.Body)
			_ = response.Body.Close()
			return err
		})
	}
	return do()
}

// endedRuns returns the runs that have ended.
func (e *events) endedRuns() (all []writ.RunID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for id := range e.ended {
		all = append(all, id)
	}
	return all
}
