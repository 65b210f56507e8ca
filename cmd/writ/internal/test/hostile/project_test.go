//go:build linux

package hostile

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"writ"
	"writ/cmd/writ/internal/client"
	"writ/coord/api"
	"writ/coord/api/apiclient"
	"writ/identity"
	"writ/scripts"
)

// projectAttacks lists the attacks of a deployer of a project in the datacenter.
var projectAttacks = []attack{
	{"project", "runs", "runs of one call, as fast as they are accepted", submitting(always(oneCall))},
	{"project", "slow", "scripts that use the whole time of a pass", submitting(always(slow))},
	{"project", "big", "scripts of 200 KiB, each another one", submitting(big)},
	{"project", "fan-out", "runs of 2,000 calls at once", submitting(always(fanOut))},
	{"project", "waits", "runs that wait, with every slot of the node taken", submitting(waits)},
	{"project", "logs", "runs that write as much as they may", submitting(always(logs))},
	{"project", "refused", "submissions that the datacenter refuses", submitting(wrong)},
	{"project", "cancels", "runs that are cancelled at once", cancels},
	{"project", "previews", "previews of plans with 2,000 calls", previews},
	{"project", "watchers", "the maximum number of event streams, each read slowly", watchers},
	{"project", "lists", "lists of runs, resources, nodes and queues asked for", lists},
}

// The scripts. Runs of an attack end by themselves soon after it.
const (
	runsEnd = 10 * time.Second

	oneCall = `
node := import("node")
run := import("run")
node.ping({}, {node: "dc1-n1"})
`
	slow = `
n := 0
for i := 0; i < 1000000000; i++ { n += i }
`
	fanOut = `
node := import("node")
for i := 0; i < 2000; i++ { node.ping({}, {node: "dc1-n1"}) }
`
	waiting = `
herodb := import("herodb")
run := import("run")
params := {name: {type: "string"}}
db := herodb.create("slow-9999-" + run.params.name, {memory_mib: 16}, {node: "dc1-n1", timeout: "1h"})
run.output({address: db.address})
`
	logs = `
run := import("run")
node := import("node")
line := ""
for i := 0; i < 2000; i++ { line += "x" }
for n := 0; n < 20; n++ {
	for i := 0; i < 40; i++ { run.log(line) }
	node.ping({}, {node: "dc1-n1"}).err
}
`
)

func always(text string) func(int64) (client.Script, map[string]any) {
	script := sync.OnceValue(func() client.Script { return client.NewScript("hostile.tengo", []byte(text)) })
	return func(int64) (client.Script, map[string]any) { return script(), nil }
}

// big returns a new script of maximum size, so that its check is not cached.
func big(number int64) (client.Script, map[string]any) {
	var b strings.Builder
	fmt.Fprintf(&b, "node := import(\"node\")\nn := %d\n", number)
	for i := 0; b.Len() < 200<<10; i++ {
		fmt.Fprintf(&b, "v%d := func(a) { if a > %d { return [a, {b: a}] }; return n }\n", i%900, i)
		if i%900 == 899 {
			break
		}
	}
	fmt.Fprintf(&b, "/* %s */\nnode.ping({}, {node: \"dc1-n1\"})\n", strings.Repeat("x", max(0, 200<<10-b.Len())))
	script := client.NewScript("hostile.tengo", []byte(oneCall)) // an attacker skips the check
	script.Bundle.Main.Text = []byte(b.String())
	return script, nil
}

var waitingScript = sync.OnceValue(func() client.Script { return client.NewScript("hostile.tengo", []byte(waiting)) })

func waits(number int64) (client.Script, map[string]any) {
	return waitingScript(), map[string]any{"name": fmt.Sprint(number)}
}

// wrong returns a script that calls a missing operation. The coordinator accepts it and the datacenter rejects it.
func wrong(number int64) (client.Script, map[string]any) {
	script := client.NewScript("hostile.tengo", []byte(oneCall))
	script.Bundle.Main.Text = fmt.Appendf(nil, "node := import(\"node\")\nnode.nothing(%d)\n", number)
	return script, nil
}

// submitting sends submissions. The attacker signs them in advance and repeats them when they run out.
func submitting(next func(number int64) (client.Script, map[string]any)) func(ctx context.Context, a *attacker) error {
	return func(ctx context.Context, a *attacker) error {
		return a.floodSome(ctx, 16, func(ctx context.Context) error {
			script, params := next(a.number.Add(1))
			signed, err := a.sign(script, runsEnd, params)
			if err != nil {
				return err
			}
			_, err = a.submit(ctx, signed)
			return err
		})
	}
}

func (a *attacker) submit(ctx context.Context, signed []byte) (writ.Submission, error) {
	return api.Answer[writ.Submission](a.api.SubmitWithBody(ctx, api.SignedType, bytes.NewReader(signed)))
}

// cancels submits runs and cancels each of them at once.
func cancels(ctx context.Context, a *attacker) error {
	return a.floodSome(ctx, 16, func(ctx context.Context) error {
		signed, err := a.sign(waitingScript(), runsEnd, map[string]any{"name": fmt.Sprint(a.number.Add(1))})
		if err != nil {
			return err
		}
		s, err := a.submit(ctx, signed)
		if err != nil {
			return err
		}
		seen := identity.SeenRun("hostile.tengo", a.project.ID, a.project.Name, time.Time{})
		statement, err := a.person.SignStatement(identity.Statement{
			Datacenter: a.datacenter, Subject: "run/" + string(s.Run), Decision: "cancel", Seen: seen,
		})
		if err != nil {
			return err
		}
		_, err = api.Answer[api.StatementAnswer](a.api.SubmitStatementWithBody(ctx, api.SignedType, bytes.NewReader(statement)))
		return err
	})
}

// proposal returns a plan with the maximum number of calls of a preview.
func (a *attacker) proposal(project writ.ProjectID) ([]byte, error) {
	p := writ.Proposal{Project: project}
	for i := range scripts.MaxOpenCalls {
		p.Calls = append(p.Calls, writ.ProposedCall{
			Operation: "herodb.create", Name: fmt.Sprintf("db-%d", i), Args: map[string]any{"memory_mib": 16}, Options: map[string]any{"node": "dc1-n1"},
		})
	}
	return json.Marshal(p)
}

func previews(ctx context.Context, a *attacker) error {
	body, err := a.proposal(a.project.ID)
	if err != nil {
		return err
	}
	return a.floodSome(ctx, 16, func(ctx context.Context) error {
		answer, err := a.api.PreviewPlanWithBody(ctx, string(a.datacenter), "application/json", bytes.NewReader(body))
		return a.passOver(answer, err)
	})
}

// passOver reads and discards a response.
func (a *attacker) passOver(answer *http.Response, err error) error {
	if err := api.ErrorOf(answer, err); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, answer.Body)
	_ = answer.Body.Close()
	return err
}

// streams is the number of event streams to open.
const streams = 300

func watchers(ctx context.Context, a *attacker) error {
	var all sync.WaitGroup
	slowly := &http.Client{Transport: a.http.Transport} // without a timeout
	watched, err := apiclient.NewClient(a.API, apiclient.WithHTTPClient(slowly))
	if err != nil {
		return err
	}
	for range streams {
		all.Go(func() {
			for a.pace.Wait(ctx) == nil {
				answer, err := watched.Watch(ctx, &api.WatchParams{})
				if err := api.ErrorOf(answer, err); err != nil {
					a.outcome(err)
					sleep(ctx, time.Second)
					continue
				}
				a.count("opened", 1)
				for b := make([]byte, 1); err == nil && ctx.Err() == nil; sleep(ctx, 50*time.Millisecond) {
					_, err = answer.Body.Read(b)
				}
				_ = answer.Body.Close()
			}
		})
	}
	all.Wait()
	return nil
}

func lists(ctx context.Context, a *attacker) error {
	return a.flood(ctx, 32, func(ctx context.Context) error {
		var answer *http.Response
		var err error
		switch n := a.number.Add(1); n % 6 {
		case 0:
			answer, err = a.api.ListRuns(ctx, &api.ListRunsParams{Limit: api.Given(client.PageSize)})
		case 1:
			answer, err = a.api.ListResources(ctx, &api.ListResourcesParams{})
		case 2:
			answer, err = a.api.ListNodes(ctx, &api.ListNodesParams{})
		case 3:
			answer, err = a.api.ListQueues(ctx, &api.ListQueuesParams{})
		case 4:
			answer, err = a.api.ListUsage(ctx, &api.ListUsageParams{})
		case 5:
			answer, err = a.api.ListSecrets(ctx, &api.ListSecretsParams{})
		}
		return a.passOver(answer, err)
	})
}
