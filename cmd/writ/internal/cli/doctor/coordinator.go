package doctor

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"writ/cmd/writ/internal/cli"
	"writ/cmd/writ/internal/cli/held"
	"writ/cmd/writ/internal/client"
	"writ/coord/api"
	"writ/identity"
)

// examineServer checks each coordinator and compares the clocks.
func examineServer(ctx context.Context, c *client.Client) []finding {
	var found []finding
	for _, address := range c.Context.Servers {
		ctx, stop := context.WithTimeout(ctx, doctorPatience)
		f := finding{Check: "coordinator " + address, State: ill, Fix: "writ coord --data DIR, or another --server"}
		began := time.Now()
		response, err := get(ctx, c.Direct(), address+"/readyz")
		took := time.Since(began)
		if err != nil {
			stop()
			f.Detail = "it does not answer: " + err.Error()
			found = append(found, f)
			continue
		}
		ready, rerr := readiness(response)
		switch {
		case rerr != nil:
			f.Detail = rerr.Error()
		case !ready.Ready:
			f.Detail, f.Fix = "it is not ready: "+failedChecks(ready), mendFault
		default:
			f.State, f.Detail, f.Fix = healthy, "ready, answered in "+cli.ShortDuration(took), ""
		}
		found = append(found, f, clockFinding(response, began.Add(took/2)))
		stop()
	}
	return found
}

func get(ctx context.Context, by *http.Client, url string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	return by.Do(r)
}

// readiness decodes the answer of a coordinator. An answer with JSON and status 503 is not an error: it lists the
// failed checks of a coordinator that is not ready.
func readiness(r *http.Response) (ready api.Readiness, err error) {
	if r.StatusCode == http.StatusServiceUnavailable &&
		strings.HasPrefix(r.Header.Get("Content-Type"), "application/json") {
		defer r.Body.Close()
		return ready, json.NewDecoder(io.LimitReader(r.Body, 1<<20)).Decode(&ready)
	}
	return api.Answer[api.Readiness](r, nil)
}

// examineDatacenters checks each datacenter, as reported by the coordinator.
func examineDatacenters(ctx context.Context, c *client.Client, roster *identity.Roster) []finding {
	ctx, stop := context.WithTimeout(ctx, doctorPatience)
	defer stop()
	list, err := api.Answer[api.DatacenterList](c.API.ListDatacenters(ctx))
	if err != nil {
		return nil // another finding covers the coordinator
	}
	var found []finding
	held := held.HeldIn(ctx, c, roster)
	for _, d := range list.Items {
		f := finding{Check: "datacenter " + d.Name, State: healthy, Detail: "connected for " + cli.Age(d.Connected)}
		if what := held[d.ID]; what != "" {
			f.State, f.Detail, f.Fix = suspect, what, "`writ hold list` shows the holds and the commands that release them"
		}
		if what := cli.RestoredText(d, time.Now()); what != "" {
			f.State, f.Detail = suspect, strings.TrimPrefix(f.Detail+"; "+what, "; ")
			f.Fix = strings.TrimPrefix(f.Fix+"; "+mendRestored, "; ")
		}
		switch {
		case !d.Enabled:
			f.State, f.Detail = suspect, d.Reason
		case d.Fault != "":
			f.State, f.Detail, f.Fix = ill, d.Fault, mendFault
		case !d.Placeable:
			f.State, f.Detail, f.Fix = ill, d.Reason, "writ supervisor --data DIR, and read its log"
		}
		found = append(found, f)
	}
	return found
}

func failedChecks(r api.Readiness) string {
	var failed []string
	for _, c := range r.Checks {
		if !c.OK {
			failed = append(failed, c.Name+": "+c.Detail)
		}
	}
	return strings.Join(failed, "; ")
}

// clockFinding compares the clock of this machine with the Date header of the coordinator, which has a resolution of
// one second. Signed texts tolerate one minute.
func clockFinding(r *http.Response, now time.Time) finding {
	f := finding{Check: "clock", State: healthy}
	there, err := http.ParseTime(r.Header.Get("Date"))
	if err != nil {
		f.State, f.Detail = suspect, "the coordinator's answer has no time"
		return f
	}
	off := now.Sub(there).Abs()
	f.Detail = fmt.Sprintf("%s apart from the coordinator's", off.Round(time.Second))
	if off > identity.Skew/2 {
		f.State, f.Fix = ill, "set the clock: timedatectl set-ntp true"
	}
	return f
}
