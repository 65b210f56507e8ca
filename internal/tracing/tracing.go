// Package tracing sends spans to a collector by OTLP over HTTP. It assigns trace and span ids to runs and their calls,
// but does not depend on what a run or call does.
//
// All ids are derived from the run: the trace id is the 16 bytes of the run id, and each part of the run has a span
// whose id is a digest of the part's name and of its parent's id. Processes therefore need not exchange trace ids,
// signed texts need no field for them, and a span that is sent twice is the same span.
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

// lastWords limits the time for sending the remaining spans on Close.
const lastWords = 3 * time.Second

// Settings configures an exporter.
type Settings struct {
	URL     string  // of the collector, "http://127.0.0.1:4318"; without a path, "/v1/traces" is added
	Ratio   float64 // fraction of runs to trace, selected by their ids; 1 means all
	Service string  // "writ-coordinator"
	Version string  // of this program
	Log     *slog.Logger
}

// Exporter sends spans. It queues up to 2,048 spans while the collector is slow, and drops further spans. A nil
// Exporter drops all spans.
type Exporter struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
	sender   sdktrace.SpanExporter
}

// Open returns an exporter, or nil if the settings have no URL. It does not wait for the collector.
func Open(ctx context.Context, s Settings) (*Exporter, error) {
	if s.URL == "" {
		return nil, nil
	}
	u, err := url.Parse(s.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil {
		return nil, writ.Errorf(writ.CodeUsage, "--traces is not the address of a trace collector").
			WithHint("an example is http://127.0.0.1:4318, without a password")
	}
	if !(s.Ratio >= 0 && s.Ratio <= 1) {
		return nil, writ.Errorf(writ.CodeUsage, "--trace-ratio must be between 0 and 1, got %g", s.Ratio).
			WithHint("1 traces all runs, 0.01 one of a hundred")
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
		// Depends only on the id, so all processes select the same runs.
		sdktrace.WithSampler(sdktrace.TraceIDRatioBased(s.Ratio)),
		sdktrace.WithResource(resource.NewSchemaless(attribute.String("service.name", s.Service),
			attribute.String("service.version", s.Version))),
	)
	return &Exporter{provider, provider.Tracer("writ"), exporter}, nil
}

// Close sends the remaining spans, for at most lastWords.
func (e *Exporter) Close() error {
	if e == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), lastWords)
	defer cancel()
	err := e.provider.Shutdown(ctx)
	_ = e.sender.Shutdown(context.Background()) // cancels a request that the provider does not wait for
	if err != nil {
		return fmt.Errorf("send the last traces: %w", err)
	}
	return nil
}

// Span is a part of the execution of a run.
type Span struct {
	At          Place
	Name        string
	From, Until time.Time
	Labels      map[string]string // empty values are omitted
	Error       string            // reason of a failure, otherwise empty; see Fail
}

// Fail sets the error of the span, in the form "CODE: message" that all spans use, and a label with the code. A nil
// error is ignored.
func (s *Span) Fail(err *writ.Error) {
	if err == nil {
		return
	}
	if s.Labels == nil {
		s.Labels = map[string]string{}
	}
	s.Error, s.Labels["code"] = string(err.Code)+": "+err.Message, string(err.Code)
}

// Place is the position of a span in a trace.
type Place struct {
	trace  trace.TraceID
	parent trace.SpanID // zero for the first span
	id     trace.SpanID
}

var runEncoding = base32.StdEncoding.WithPadding(base32.NoPadding)

// OfRun returns the place of a run, which is the first span of its trace.
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

// OfCall returns the place of a call of a run.
func OfCall(run writ.RunID, seq int) Place { return OfRun(run).Part(fmt.Sprintf("call %d", seq)) }

// OfAttempt returns the place of an attempt of a call in its datacenter.
func OfAttempt(run writ.RunID, seq, attempt int) Place {
	return OfCall(run, seq).Part(fmt.Sprintf("attempt %d", attempt))
}

// Part returns the place of a part with a unique name within its parent span.
func (p Place) Part(name string) Place {
	return Place{trace: p.trace, parent: p.id, id: p.idOf(name)}
}

func (p Place) idOf(name string) (id trace.SpanID) {
	sum := sha256.Sum256(fmt.Appendf(nil, "%x %x %s", p.trace, p.id, name))
	copy(id[:], sum[:])
	return id
}

// idKey is the context key of a span's place.
type idKey struct{}

// givenIDs implements sdktrace.IDGenerator with the ids of the Place in the context, instead of random ids.
type givenIDs struct{}

func (givenIDs) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	p, _ := ctx.Value(idKey{}).(Place)
	return p.trace, p.id
}

func (givenIDs) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	p, _ := ctx.Value(idKey{}).(Place)
	return p.id
}

// Record queues a span. It never blocks.
func (e *Exporter) Record(s Span) {
	if e == nil {
		return
	}
	ctx := context.WithValue(context.Background(), idKey{}, s.At)
	if s.At.parent.IsValid() {
		ctx = trace.ContextWithRemoteSpanContext(ctx,
			trace.NewSpanContext(trace.SpanContextConfig{TraceID: s.At.trace, SpanID: s.At.parent, Remote: true}))
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
	if until.Before(s.From) { // the clocks of two machines differ
		until = s.From
	}
	span.End(trace.WithTimestamp(until))
}
