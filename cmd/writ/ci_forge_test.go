package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/rogpeppe/go-internal/testscript"
)

// forge simulates the comment endpoints of GitHub or GitLab for request 7 of acme/shop, or of project 12. It is as
// strict as their documentation. It writes each refused request to the file refused, and each comment of the job to
// comment-ID.md.
type forge struct {
	forgeKind
	ts *testscript.TestScript

	mu       sync.Mutex
	comments []*comment // oldest first
}

type comment struct {
	id     int
	author string
	body   string
}

// forgeKind holds the differences between GitHub and GitLab.
type forgeKind struct {
	prefix, list, one string // path patterns
	update            string // method
	header, accept    string
	token, reader     string // the job's token, and a token with read access
	author            string // author of comments with the job's token
	most              int    // limit of a comment, in characters
	newestFirst       bool
	view              func(*comment) map[string]any
}

var forges = map[string]forgeKind{
	"github": {
		list: `^/repos/acme/shop/issues/7/comments$`, one: `^/repos/acme/shop/issues/comments/(\d+)$`, update: http.MethodPatch,
		header: "Authorization", accept: "application/vnd.github+json", token: "Bearer ghs_ofTheJob", reader: "Bearer ghs_onlyReads",
		author: "github-actions[bot]", most: 65_536,
		view: func(c *comment) map[string]any {
			return map[string]any{"id": c.id, "body": c.body, "user": map[string]any{"login": c.author, "id": 1}}
		},
	},
	"gitlab": {
		prefix: "/api/v4", list: `^/api/v4/projects/12/merge_requests/7/notes$`, one: `^/api/v4/projects/12/merge_requests/7/notes/(\d+)$`, update: http.MethodPut,
		header: "Private-Token", accept: "application/json", token: "glpat-ofTheProject", reader: "glpat-onlyReads",
		author: "77", most: 1_000_000, newestFirst: true,
		view: func(c *comment) map[string]any {
			author, _ := strconv.Atoi(c.author)
			return map[string]any{"id": c.id, "body": c.body, "system": false, "author": map[string]any{"id": author, "username": "someone"}}
		},
	},
}

// forgeAt implements the command `forge github|gitlab [COMMENTS]`. It starts a forge with COMMENTS comments of another
// user, who has copied the marker of a plan of web.tengo. It sets FORGE to the address of its API, and JOB_TOKEN to a
// token with write access.
func forgeAt(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: forge github|gitlab [COMMENTS]")
	}
	f := &forge{forgeKind: forges[args[0]], ts: ts}
	if len(args) > 1 {
		n, err := strconv.Atoi(args[1])
		ts.Check(err)
		for range n {
			f.add("5", "<!-- writ plan "+base64.StdEncoding.EncodeToString([]byte("web.tengo"))+" -->\nApproved.")
		}
	}
	server := httptest.NewServer(f)
	ts.Defer(server.Close)
	ts.Setenv("FORGE", server.URL+f.prefix)
	ts.Setenv("JOB_TOKEN", f.token[strings.LastIndexByte(f.token, ' ')+1:])
}

func (f *forge) add(author, body string) *comment {
	c := &comment{id: 1000 + len(f.comments), author: author, body: body}
	f.comments = append(f.comments, c)
	return c
}

// ServeHTTP implements http.Handler.
func (f *forge) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	status, answer := f.answer(r)
	if status >= 400 {
		refused := fmt.Sprintf("%s %s: %d %v\n", r.Method, r.URL, status, answer)
		f.note("refused", refused)
		answer = map[string]any{"message": answer}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(answer) // the client may be gone
}

// note appends to a file of the script.
func (f *forge) note(name, text string) {
	file, err := os.OpenFile(f.ts.MkAbs(name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err == nil {
		_, err = file.WriteString(text)
		_ = file.Close()
	}
	if err != nil {
		panic(err) // the directory of the test has been removed
	}
}

func (f *forge) answer(r *http.Request) (status int, answer any) {
	token := r.Header.Get(f.header)
	one := regexp.MustCompile(f.one).FindStringSubmatch(r.URL.Path)
	switch {
	case token != f.token && token != f.reader:
		return http.StatusUnauthorized, "Bad credentials"
	case r.Header.Get("User-Agent") == "" || r.Header.Get("Accept") != f.accept:
		return http.StatusNotAcceptable, fmt.Sprintf("the headers are %v", r.Header)
	case r.Method == http.MethodGet && r.URL.Path == "/api/v4/user":
		return http.StatusOK, map[string]any{"id": 77, "username": "project_12_bot"}
	case r.Method == http.MethodGet && regexp.MustCompile(f.list).MatchString(r.URL.Path):
		return f.page(r)
	case token == f.reader:
		return http.StatusForbidden, "Resource not accessible by integration"
	case r.Method == http.MethodPost && regexp.MustCompile(f.list).MatchString(r.URL.Path):
		return f.write(r, func() *comment { return f.add(f.author, "") }, http.StatusCreated)
	case r.Method == f.update && one != nil:
		i := slices.IndexFunc(f.comments, func(c *comment) bool { return strconv.Itoa(c.id) == one[1] })
		if i >= 0 {
			return f.write(r, func() *comment { return f.comments[i] }, http.StatusOK)
		}
	}
	return http.StatusNotFound, "Not Found"
}

// page returns a page of the list of comments.
func (f *forge) page(r *http.Request) (status int, answer any) {
	page, err := strconv.Atoi(r.URL.Query().Get("page"))
	size, serr := strconv.Atoi(r.URL.Query().Get("per_page"))
	if err != nil || serr != nil || page < 1 || size < 1 || size > 100 || len(r.URL.Query()) != 2 || r.ContentLength > 0 {
		return http.StatusUnprocessableEntity, "not a request for a list"
	}
	all := slices.Clone(f.comments)
	if f.newestFirst {
		slices.Reverse(all)
	}
	list := []map[string]any{}
	for _, c := range all[min((page-1)*size, len(all)):min(page*size, len(all))] {
		list = append(list, f.view(c))
	}
	return http.StatusOK, list
}

// write sets the text of a comment from a request.
func (f *forge) write(r *http.Request, at func() *comment, done int) (status int, answer any) {
	var sent map[string]any
	data, err := io.ReadAll(r.Body)
	if err != nil || r.Header.Get("Content-Type") != "application/json" || json.Unmarshal(data, &sent) != nil {
		return http.StatusBadRequest, "Problems parsing JSON"
	}
	body, is := sent["body"].(string)
	switch {
	case !is || len(sent) != 1 || !utf8.ValidString(body):
		return http.StatusUnprocessableEntity, "it has no body, or more than that"
	case utf8.RuneCountInString(body) > f.most:
		return http.StatusUnprocessableEntity, fmt.Sprintf("body is too long (maximum is %d characters)", f.most)
	}
	c := at()
	if c.author != f.author { // the token would allow it
		f.note("refused", fmt.Sprintf("the comment %d of %s is changed\n", c.id, c.author))
	}
	c.body = body
	if err := os.WriteFile(f.ts.MkAbs(fmt.Sprintf("comment-%d.md", c.id)), []byte(body), 0o644); err != nil {
		panic(err) // the directory of the test has been removed
	}
	return done, f.view(c)
}
