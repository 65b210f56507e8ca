package catalog

import (
	"reflect"
	"slices"
	"time"

	"writ"
)

// declaration is an operation while it is declared. Its methods return a copy with one more property.
type declaration Operation

// declare returns the declared operation with the schemas of its argument struct A and its result struct R.
func declare[A, R any](d declaration) *Operation {
	o := Operation(d)
	o.Args, o.Result = schemaOf[A](), schemaOf[R]()
	o.Makes = o.Effect == Make || o.Effect == Run
	o.newArgs = func() any { return new(A) }
	o.structs = map[reflect.Type]Schema{reflect.TypeFor[A](): o.Args, reflect.TypeFor[R](): o.Result}
	if i := slices.IndexFunc(o.Args, func(f Field) bool { return f.Elsewhere }); i >= 0 {
		o.Origin = o.Args[i].Name
	}
	if usesCapacity(o.Args) {
		o.Needs = func(args map[string]any) writ.Capacity { return needs(o.Args, args) }
	}
	if usesCapacity(o.Result) {
		o.Uses = func(result map[string]any) (int64, bool) { return diskUsed(o.Result, result) }
	}
	return &o
}

// with returns d with the properties of one verb.
func (d declaration) with(verb string, effect Effect, timeout time.Duration, help string) declaration {
	d.Verb, d.Effect, d.Timeout, d.Help = verb, effect, timeout, help
	return d
}

// measured returns d as an operation whose disk space only the node can measure.
func (d declaration) measured() declaration {
	d.Measured = true
	return d
}

// fetches returns d as an operation that mostly waits for an external server.
func (d declaration) fetches() declaration {
	d.Fetches = true
	return d
}

// once returns d as an operation that is executed at most once.
func (d declaration) once() declaration {
	d.Repeat = Once
	return d
}

// resumes returns d as an operation that is executed at most once, and that its driver continues after an interruption.
func (d declaration) resumes() declaration {
	d.Repeat = Resume
	return d
}

// aside returns d as an operation that runs beside others; see Operation.Aside.
func (d declaration) aside() declaration {
	d.Aside = true
	return d
}

// reads returns d as an operation that changes no data.
func (d declaration) reads() declaration { return d.data(DataReads, "") }

// adds returns d as an operation that changes no existing data.
func (d declaration) adds() declaration { return d.data(DataAdds, "") }

// uses returns d as an operation that can lose data; `when` describes how, as a sentence.
func (d declaration) uses(when string) declaration { return d.data(DataUses, when) }

// destroys returns d as an operation that deletes or overwrites data; the sentence names the data.
func (d declaration) destroys(what string) declaration { return d.data(DataDestroys, what) }

func (d declaration) data(effect Data, risk string) declaration {
	d.Data, d.Risk, d.Destructive = effect, risk, effect == DataDestroys
	return d
}

// awaitsHealth returns d as an operation that waits until its resource is healthy.
func (d declaration) awaitsHealth() declaration {
	d.AwaitsHealth = true
	return d
}

// afterWait is the time that a call needs after its longest wait, for example to kill a program.
const afterWait = 2 * time.Minute

// TimeLimit returns the time limit of a call without the option timeout: Timeout, or more if its arguments ask for a
// long wait. made holds the arguments that made its resource; it may be nil. A value in made counts if args lack the
// argument and it has no default.
func (o *Operation) TimeLimit(args, made map[string]any) time.Duration {
	wait := healthLimit(args)
	if o.AwaitsHealth {
		wait += healthLimit(made)
	}
	for _, f := range o.Args {
		if !f.Waits {
			continue
		}
		seconds, _ := args[f.Name].(int64)
		if seconds == 0 && f.Default == nil {
			seconds, _ = made[f.Name].(int64)
		}
		wait += time.Duration(seconds) * time.Second
	}
	if wait == 0 {
		return o.Timeout
	}
	return max(o.Timeout, wait+afterWait)
}

// LongestWait returns the name and value of the argument that makes a call wait longest, or "" and 0.
func (o *Operation) LongestWait(args map[string]any) (name string, wait time.Duration) {
	return longestWait(o.Args, args, "")
}

// longestWait is LongestWait for a schema. `under` is the prefix of the names.
func longestWait(s Schema, args map[string]any, under string) (name string, wait time.Duration) {
	for _, f := range s {
		at, d := under+f.Name, time.Duration(0)
		switch v := args[f.Name].(type) {
		case int64:
			if f.Waits {
				d = time.Duration(v) * time.Second
			}
		case map[string]any:
			if f.Type == Object {
				at, d = longestWait(f.Fields, v, at+".")
			}
		}
		if d > wait {
			name, wait = at, d
		}
	}
	return name, wait
}

// healthLimit returns the longest wait for a healthy container, according to the arguments that make it.
func healthLimit(args map[string]any) time.Duration {
	check, ok := args["health"].(map[string]any)
	if !ok {
		return 0
	}
	check = healthSchema.Fill(check)
	number := func(name string) int64 { n, _ := check[name].(int64); return n }
	return Health{
		StartSeconds: number("start_seconds"), Retries: number("retries"), TimeoutSeconds: number("timeout_seconds"),
		IntervalSeconds: number("interval_seconds"), HealthySeconds: number("healthy_seconds"),
	}.Limit()
}

// healthSchema has the defaults of a health check.
var healthSchema = schemaOf[Health]()
