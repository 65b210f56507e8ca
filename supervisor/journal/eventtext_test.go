package journal

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"
	"writ/internal/test/testenv"

	"pgregory.net/rapid"

	"writ"
)

// Explicitly encoded events equal those of encoding/json. A field that was added to Call and not to appendEvent is
// detected here.
//
// Promise: Speed and storage: The text of a call is written field by field and equals the output of a general
// encoder.
// How: A property test compares the bytes of both.
func TestEventsAreWrittenAsEncodingJSONWritesThem(t *testing.T) {
	times := rapid.Custom(func(r *rapid.T) any {
		if rapid.Bool().Draw(r, "never") {
			return time.Time{}
		}
		// Some offsets exceed those of real zones.
		zone := time.FixedZone("", 60*rapid.IntRange(-1500, 1500).Draw(r, "east"))
		return time.UnixMicro(rapid.Int64Range(-1e17, 1e18).Draw(r, "us")).In(zone)
	})
	errs := rapid.Custom(func(r *rapid.T) any {
		if rapid.Bool().Draw(r, "none") {
			return (*writ.Error)(nil)
		}
		return &writ.Error{Code: writ.CodeNodeLost, Message: rapid.String().Draw(r, "message"), Hint: rapid.String().Draw(r, "hint")}
	})
	calls := rapid.MakeCustom[writ.Call](rapid.MakeConfig{Types: map[reflect.Type]*rapid.Generator[any]{
		reflect.TypeFor[time.Time]():   times,
		reflect.TypeFor[*writ.Error](): errs,
	}})
	testenv.CheckProperty(t, func(r *rapid.T) {
		call := calls.Draw(r, "call")
		if rapid.Bool().Draw(r, "bytes") {
			call.Name = string(rapid.SliceOf(rapid.Byte()).Draw(r, "name"))
		}
		for _, e := range []writ.Event{
			{Seq: rapid.Int64().Draw(r, "seq"), Time: times.Draw(r, "time").(time.Time), Call: &call},
			{Log: &writ.LogLine{Text: call.Name, Time: call.Planned}},
		} {
			want, wantErr := json.Marshal(e)
			got, err := appendEvent([]byte("["), &e)
			if (err == nil) != (wantErr == nil) {
				r.Fatalf("error %v, want %v", err, wantErr)
			}
			if err == nil && string(got) != "["+string(want) {
				r.Fatalf("got  %s\nwant  %s", got[1:], want)
			}
		}
	})
}
