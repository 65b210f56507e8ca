// Package tracing sends spans to a collector by OTLP over HTTP. It knows which trace and which spans a run and its calls have, and must not know
// what happens in them.
//
// The ids follow from the run: its trace has the 16 bytes of its id, and each part has a span whose id is a digest of the names of the part. So
// processes need not tell each other of a trace, a signed text needs no place for it, and what is sent twice is the same span.
package tracing

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"writ"
	"writ/internal/limit"
)

// lastWords is how long an exporter that is closed may take for what it has not sent.
const lastWords = 3 * time.Second

// Settings say where spans go.
type Settings struct {
	URL     string  // of the collector, "http://127.0.0.1:4318"; "/v1/traces" is added if it has no path
	Ratio   float64 // of the runs that are traced, chosen by their ids: 1 for all
	Service string  // "writ-coordinator"
	Version string  // of this program
	Log     *slog.Logger
}

// Exporter sends spans. It keeps up to 2,048 of them while the collector is slow, and drops others. A nil one does nothing.
type Exporter struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
	sender   sdktrace.SpanExporter
}

// Open makes an exporter, nil if the settings have no URL. It does not wait for the collector.
func Open(ctx context.Context, s Settings) (*Exporter, error) {
	if s.URL == "" {
		return nil, nil
	}
	u, err := url.Parse(s.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil {
		return nil, writ.Errorf(writ.CodeUsage, "--traces is not the address of a collector of traces").WithHint("it looks like http://127.0.0.1:4318, without a password")
	}
	if !(s.Ratio >= 0 && s.Ratio <= 1) {
		return nil, writ.Errorf(writ.CodeUsage, "%g is no part of the runs", s.Ratio).WithHint("1 is for all of them, 0.01 for one of a hundred")
	}
	if u.Path = strings.TrimSuffix(u.Path, "/"); u.Path == "" {
		u.Path = "/v1/traces"
	}
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(u.String()))
	if err != nil {
		return nil, fmt.Errorf("make an exporter of traces: %w", err)
	}
	var lines limit.Lines
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		if times, say := lines.Say("export", time.Now()); say {
			s.Log.Warn("send traces", "err", err, "times", times)
		}
	}))
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithBatcher(exporter),
		sdktrace.WithIDGenerator(givenIDs{}),
		sdktrace.WithSampler(sdktrace.TraceIDRatioBased(s.Ratio)), // by the id alone, so that all processes choose the same runs
		sdktrace.WithResource(resource.NewSchemaless(attribute.String("service.name", s.Service), attribute.String("service.version", s.Version))),
	)
	return &Exporter{provider, provider.Tracer("writ"), exporter}, nil
}

// Close sends what is left, for some seconds at most.
func (e *Exporter) Close() error {
	if e == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), lastWords)
	defer cancel()
	err := e.provider.Shutdown(ctx)
	_ = e.sender.Shutdown(context.Background()) // ends a request that is still under way, for which the provider does not wait
	if err != nil {
		return fmt.Errorf("send the last traces: %w", err)
	}
	return nil
}

// Span is a part of what became of a run.
type Span struct {
	At          Place
	Name        string
	From, Until time.Time
	Labels      map[string]string // those without a value are left out
	Error       string            // why it failed, "" if it did not: see Fail
}

// Fail says why what the span shows has failed, in one form for all spans: "CODE: message", and the code as a label. A nil error changes nothing.
func (s *Span) Fail(err *writ.Error) {
	if err == nil {
		return
	}
	if s.Labels == nil {
		s.Labels = map[string]string{}
	}
	s.Error, s.Labels["code"] = string(err.Code)+": "+err.Message, string(err.Code)
}

// Place is a span's place in a trace.
type Place struct {
	trace  trace.TraceID
	parent trace.SpanID // zero of the first
	id     trace.SpanID
}

var runEncoding = base32.StdEncoding.WithPadding(base32.NoPadding)

// OfRun is the place of a run, which is the first span of its trace.
func OfRun(id writ.RunID) Place {
	var p Place
	bytes, err := runEncoding.DecodeString(strings.ToUpper(string(id)))
	if err != nil || len(bytes) != len(p.trace) {
		sum := sha256.Sum256([]byte(id))
		bytes = sum[:len(p.trace)]
	}
	copy(p.trace[:], bytes)
	p.id = p.idOf("run")
	return p
}

// OfCall is the place of a call of a run.
func OfCall(run writ.RunID, seq int) Place { return OfRun(run).Part(fmt.Sprintf("call %d", seq)) }

// OfAttempt is the place of an attempt of a call, as its datacenter sees it.
func OfAttempt(run writ.RunID, seq, attempt int) Place {
	return OfCall(run, seq).Part(fmt.Sprintf("attempt %d", attempt))
}

// Part is the place of a part, by its name among the parts of the same span.
func (p Place) Part(name string) Place {
	return Place{trace: p.trace, parent: p.id, id: p.idOf(name)}
}

func (p Place) idOf(name string) (id trace.SpanID) {
	sum := sha256.Sum256(fmt.Appendf(nil, "%x %x %s", p.trace, p.id, name))
	copy(id[:], sum[:])
	return id
}

// idKey is the key of a span's id in a context.
type idKey struct{}

// givenIDs are the ids that a context has.
type givenIDs struct{}

func (givenIDs) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	p, _ := ctx.Value(idKey{}).(Place)
	return p.trace, p.id
}

func (givenIDs) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	p, _ := ctx.Value(idKey{}).(Place)
	return p.id
}

// Record sends a span. It does not wait.
func (e *Exporter) Record(s Span) {
	if e == nil {
		return
	}
	ctx := context.WithValue(context.Background(), idKey{}, s.At)
	if s.At.parent.IsValid() {
		ctx = trace.ContextWithRemoteSpanContext(ctx, trace.NewSpanContext(trace.SpanContextConfig{TraceID: s.At.trace, SpanID: s.At.parent, Remote: true}))
	}
	labels := make([]attribute.KeyValue, 0, len(s.Labels))
	for name, value := range s.Labels {
		if value != "" {
			labels = append(labels, attribute.String("writ."+name, value))
		}
	}
	_, span := e.tracer.Start(ctx, s.Name, trace.WithTimestamp(s.From), trace.WithAttributes(labels...))
	if s.Error != "" {
		span.SetStatus(codes.Error, s.Error)
	}
	until := s.Until
	if until.Before(s.From) { // by the clocks of two machines
		until = s.From
	}
	span.End(trace.WithTimestamp(until))
}
