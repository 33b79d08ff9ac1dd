package reply

import (
	"bytes"
	markup "html"
	"regexp"
	"strings"
)

// PageHint is for a web page in place of an answer: the service writes none.
const PageHint = "a proxy, load balancer or portal answered in place of the service: check cluster, and send.proxy and HTTPS_PROXY"

// PageAgain is pageHint for what is sent until it is taken.
const PageAgain = PageHint + "; the agent retries by itself"

var (
	pageTitle  = regexp.MustCompile(`(?is)<title[^>]*>(.*?)</title>`)
	pageHidden = regexp.MustCompile(`(?is)<(script|style|head)\b.*?(</(script|style|head)\s*>|$)|<!--.*?(-->|$)`)
	pageTag    = regexp.MustCompile(`(?s)<[^>]*(>|$)`)
)

// PageWords reports whether a body is a web page, and returns its title, or else its visible text, as
// a short line for a log. The secrets are removed from it.
func PageWords(body []byte, secrets ...string) (words string, isPage bool) {
	text := bytes.TrimSpace(bytes.TrimPrefix(body, []byte("\xef\xbb\xbf")))
	if !bytes.HasPrefix(text, []byte("<")) {
		return "", false
	}
	if m := pageTitle.FindSubmatch(text); m != nil {
		words = visible(string(m[1]))
	}
	if words == "" {
		words = visible(pageHidden.ReplaceAllString(string(text), " "))
	}
	if words == "" {
		return "a web page without words", true
	}
	return "a web page: " + Printable(Redact(words, secrets...), maxPageWords), true
}

// maxPageWords bounds the quoted text of a web page, in bytes.
const maxPageWords = 200

// visible returns the text of a piece of HTML without tags, on one line.
func visible(piece string) string {
	return strings.Join(strings.Fields(markup.UnescapeString(pageTag.ReplaceAllString(piece, " "))), " ")
}
