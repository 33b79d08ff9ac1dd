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

// PageWords says of a body that is a web page what it is called, or else what
// it says without its markup: a whole page in a log is useless. Secrets are
// taken out.
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

// visible is the words of a piece of a page on one line.
func visible(piece string) string {
	return strings.Join(strings.Fields(markup.UnescapeString(pageTag.ReplaceAllString(piece, " "))), " ")
}
