// Package reply reads what a service, its authority, or a proxy in their place answered:
// never more than a bounded, printable line of it, and never a token.
package reply

import (
	"cmp"
	"encoding/json"
	"errors"
	"regexp"
	"strings"
)

// Reply is what an error body says. Bodies come as the service's error object,
// as JSON of the web server in front of it, as text, as HTML or not at all;
// every one of them has a reply.
type Reply struct {
	Own       bool // it is the service's own error body, not that of something between
	Permanent *bool
	Code      string // the most telling one, as spelled
	Message   string // not yet fit for a log
	Activity  string
	About     Subject
	Texts     string // all messages in one, names included
	Page      bool   // a web page, whose words message is: not of the service
}

// oneAPIError is the error object of the service. Field names are matched in
// any case. Real codes hide at every depth of innererror.
type oneAPIError struct {
	Code         string       `json:"code"`
	InnerCode    string       `json:"@errorCode"`
	Type         string       `json:"@type"`
	Message      string       `json:"message"`
	Detail       string       `json:"@message"`
	Permanent    *bool        `json:"@permanent"`
	Inner        *oneAPIError `json:"innererror"`
	ErrorContext struct {
		ActivityID string `json:"activityId"`
	} `json:"@context"`
}

// textError recognises the service's error in plain text.
var textError = regexp.MustCompile(`ActivityId='([^']*)'`)

// Parse reads an error body in any of the forms that the service and web servers use. target is the
// database and table of the request as the service writes them in messages; there it is not
// searched for error codes. Parse never fails: a body that it does not understand becomes the
// message.
func Parse(body []byte, target string) Reply {
	var doc struct {
		Error *oneAPIError `json:"error"`
		oneAPIError
	}
	err := json.Unmarshal(body, &doc)
	var oddField *json.UnmarshalTypeError // a field of another type; the other fields were read
	if err != nil && !errors.As(err, &oddField) {
		return ParseText(string(body), target)
	}
	r := Reply{Own: doc.Error != nil && (doc.Error.Code != "" || doc.Error.Type != "")}
	r.read(cmp.Or(doc.Error, &doc.oneAPIError), target)
	if r.Message == "" && r.Code == "" {
		r.Message = string(body)
	}
	return r
}

// ParseText reads an error body that is not JSON. If it has an activity id as the service writes
// it, the reply counts as one of the service itself (Own). target is the database and table of the
// request, as in Parse.
func ParseText(body, target string) Reply {
	r := Reply{Message: body}
	if m := textError.FindStringSubmatch(body); m != nil {
		r.Own, r.Activity = true, m[1]
	}
	r.judge(nil, body, target)
	return r
}

// read fills in the reply from an error object and the errors nested inside it. The first message,
// activity id and statement about permanence count, from the outside in; all codes and messages
// decide what the error is about. target is as in Parse.
func (r *Reply) read(top *oneAPIError, target string) {
	var codes, texts []string
	for e := top; e != nil; e = e.Inner {
		for _, c := range []string{e.Code, e.InnerCode, typeName(e.Type)} {
			if c != "" {
				codes = append(codes, c)
			}
		}
		for _, m := range []string{e.Detail, e.Message} {
			if m == "" {
				continue
			}
			texts = append(texts, m)
			r.Message = cmp.Or(r.Message, m)
		}
		r.Permanent = cmp.Or(r.Permanent, e.Permanent)
		r.Activity = cmp.Or(r.Activity, e.ErrorContext.ActivityID)
	}
	r.judge(codes, strings.Join(texts, "\n"), target)
}

// typeName is the last part of a dotted name of a class.
func typeName(t string) string { return t[strings.LastIndexByte(t, '.')+1:] }

// judge sets the subject of the error (About), by its codes and the words of its messages (texts),
// and the code to show. Names of tables can look like codes, so names in quotes and target are
// removed from the texts before codes are looked for in them.
func (r *Reply) judge(codes []string, texts, target string) {
	prose := quotedName.ReplaceAllString(strings.ReplaceAll(texts, target, ""), "$1")
	codes = append(codes, codeShaped.FindAllString(prose, 16)...)
	r.Texts = texts
	r.About, r.Code = aboutCodes(codes)
	if by := aboutProse(strings.ToLower(prose)); by != 0 && (r.About == 0 || by < r.About) {
		r.About = by
	}
	if r.Code == "" && len(codes) > 0 {
		r.Code = codes[0]
	}
}

// quotedName finds names in single quotes; the apostrophe in a word is none.
var quotedName = regexp.MustCompile(`(^|[^\pL\pN])'[^'\n]*'`)

// codeShaped finds codes of the documented families inside text.
var codeShaped = regexp.MustCompile(`\b(?:(?:BadRequest|Stream|General|NotFound|Forbidden|ServiceUnavailable|UpdatePolicy)_[A-Za-z_]+|` +
	`StreamingIngestion[A-Za-z]+|Kusto[A-Za-z]+Exception|(?:EntityNotFound|Throttling)Exception|0x80DA[0-9A-Fa-f]{4})\b`)
