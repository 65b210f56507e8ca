package coord

import (
	"fmt"
	"math/big"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"writ"
)

// TestInvalidParametersAreRefused walks the query parameters of all operations: empty values, lists
// with an empty item, and integers outside their range are rejected with the name of the parameter. An empty filter
// would select everything.
func TestInvalidParametersAreRefused(t *testing.T) {
	p := start(t, func(c *Config) { c.RequestsPerSecond = 1e6 })
	s, err := p.submit(signedScript(t, payload()))
	if err != nil {
		t.Fatal(err)
	}
	fill := strings.NewReplacer("{run}", string(s.Run), "{datacenter}", string(vienna), "{node}", "n1")
	refused := func(path string, others url.Values, name, value string) {
		query := url.Values{name: {value}}
		for other, value := range others {
			if other != name {
				query[other] = value
			}
		}
		path += "?" + query.Encode()
		status, body := p.get(path)
		wantProblem(t, path, status, body, writ.CodeBadRequest)
		if !strings.Contains(body, name) {
			t.Errorf("%s is answered with %s, which does not name the parameter", path, body)
		}
		if hint := "omit " + name + ", or set a valid value"; value == "" && !strings.Contains(body, hint) {
			t.Errorf("%s is answered with %s, without the hint %q", path, body, hint)
		}
	}
	walked := 0
	for path, item := range description().Paths.Map() {
		parameters, required := queryOf(item.GetOperation(http.MethodGet))
		for _, q := range parameters {
			walked++
			refused(fill.Replace(path), required, q.Name, "")
			if q.Schema.Value.Type.Is("array") {
				refused(fill.Replace(path), required, q.Name, ",")
				refused(fill.Replace(path), required, q.Name, itemOf(q)+",")
			}
			if !q.Schema.Value.Type.Is("integer") {
				continue
			}
			if q.Schema.Value.Min == nil || q.Schema.Value.Max == nil {
				t.Errorf("%s: the parameter %s has no range", path, q.Name)
				continue
			}
			refused(fill.Replace(path), required, q.Name, beside(*q.Schema.Value.Min, -1))
			refused(fill.Replace(path), required, q.Name, beside(*q.Schema.Value.Max, 1))
		}
	}
	if walked < 50 {
		t.Errorf("%d parameters were walked; the description has more", walked)
	}
}

// queryOf returns the query parameters of an operation, and values for the required ones.
func queryOf(op *openapi3.Operation) (all []*openapi3.Parameter, required url.Values) {
	required = url.Values{}
	if op == nil {
		return nil, required
	}
	for _, ref := range op.Parameters {
		if ref.Value.In != openapi3.ParameterInQuery {
			continue
		}
		all = append(all, ref.Value)
		if ref.Value.Required {
			required.Set(ref.Value.Name, strings.Repeat("0", 2*writ.ClientNonce)) // all are nonces
		}
	}
	return all, required
}

// itemOf returns a valid item of a list.
func itemOf(list *openapi3.Parameter) string {
	if enum := list.Schema.Value.Items.Value.Enum; len(enum) > 0 {
		return fmt.Sprint(enum[0])
	}
	return writ.NewUUID()
}

// beside returns the number step away from bound. The greatest int64 equals its neighbour as a float64.
func beside(bound, step float64) string {
	n, _ := big.NewFloat(bound).Int(nil)
	return fmt.Sprint(n.Add(n, big.NewInt(int64(step))))
}
