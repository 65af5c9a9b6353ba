package expression

import (
	"encoding/base64"
	"math/big"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"github.com/decandb/decan/internal/deploy/jsonc"
)

func networkFunctions() []*function {
	return []*function{
		{name: "uri", min: 2, max: 2, eval: joinURI},
		{name: "uriComponent", min: 1, max: 1, eval: textual(escapeComponent)},
		{name: "uriComponentToString", min: 1, max: 1, eval: textual(func(s string) string { return unescape(strings.ReplaceAll(s, "+", " ")) })},
		{name: "dataUri", min: 1, max: 1, eval: textual(func(s string) string {
			return "data:text/plain;charset=utf-8;base64," + base64.StdEncoding.EncodeToString([]byte(s))
		})},
		{name: "dataUriToString", min: 1, max: 1, eval: fromDataURI},
		{name: "parseUri", min: 1, max: 1, eval: parseURI},
		{name: "buildUri", min: 1, max: 1, eval: buildURI},
		{name: "parseCidr", min: 1, max: 1, eval: parseCIDR},
		{name: "cidrSubnet", min: 3, max: 3, eval: cidrSubnet},
		{name: "cidrHost", min: 2, max: 2, eval: cidrHost},
	}
}

// escapeComponent escapes all but the unreserved characters of RFC 3986.
func escapeComponent(s string) string {
	var b strings.Builder
	for i := range len(s) {
		c := s[i]
		if isDigit(c) || c|0x20 >= 'a' && c|0x20 <= 'z' || strings.IndexByte("-_.~", c) >= 0 {
			b.WriteByte(c)
			continue
		}
		b.WriteByte('%')
		b.WriteByte("0123456789ABCDEF"[c>>4])
		b.WriteByte("0123456789ABCDEF"[c&15])
	}
	return b.String()
}

// unescape replaces escape sequences, and leaves what is none.
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+3], 16, 8); err == nil {
				b.WriteByte(byte(n))
				i += 2
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return strings.ToValidUTF8(b.String(), "\uFFFD")
}

func joinURI(c *called) (any, error) {
	s, err := c.texts()
	if err != nil {
		return nil, err
	}
	base, err := url.Parse(s[0])
	if err != nil || !base.IsAbs() || base.Host == "" {
		return nil, errorf("The template language function 'uri' expects its first argument to be a uri string. The provided value is '%s'. Please see https://aka.ms/arm-function-datauri for usage details.", s[0])
	}
	joined, err := base.Parse(s[1])
	if err != nil {
		return nil, errorf("The template language function 'uri' expects its second argument to be a uri string. The provided value is '%s'. Please see https://aka.ms/arm-function-datauri for usage details.", s[1])
	}
	return joined.String(), nil
}

func fromDataURI(c *called) (any, error) {
	s, err := c.text(0)
	if err != nil {
		return nil, err
	}
	head, data, found := strings.Cut(s, ",")
	kind, isData := strings.CutPrefix(head, "data:")
	if !found || !isData {
		return nil, c.cannotConvert("converted to the target type")
	}
	if !strings.HasSuffix(strings.ToLower(kind), ";base64") {
		return unescape(data), nil
	}
	decoded, err := base64.StdEncoding.DecodeString(data)
	if err != nil {
		return nil, c.cannotConvert("decoded from base64 representation")
	}
	return strings.ToValidUTF8(string(decoded), "\uFFFD"), nil
}

func parseURI(c *called) (any, error) {
	s, err := c.text(0)
	if err != nil {
		return nil, err
	}
	parsed, err := url.Parse(s)
	if err != nil || !parsed.IsAbs() || parsed.Host == "" {
		return nil, errorf("The specified URL '%s' is not valid 'Invalid URI: The format of the URI could not be determined.'.", s)
	}
	out := jsonc.NewObject("scheme", strings.ToLower(parsed.Scheme), "host", parsed.Hostname())
	if port, err := strconv.ParseInt(parsed.Port(), 10, 64); err == nil {
		out.Set("port", port)
	} else {
		out.Set("port", nil)
	}
	if path := parsed.EscapedPath(); path != "" && path != "/" {
		out.Set("path", path)
	}
	if parsed.RawQuery != "" {
		out.Set("query", "?"+parsed.RawQuery)
	}
	return out, nil
}

func buildURI(c *called) (any, error) {
	o, err := c.object(0)
	if err != nil {
		return nil, err
	}
	get := func(name string) string {
		v, _ := o.Get(name)
		return plainText(v)
	}
	for _, name := range []string{"scheme", "host"} {
		if get(name) == "" {
			return nil, errorf("The input object to the 'buildUri' function is missing the required property '%s''.", name)
		}
	}
	out := get("scheme") + "://" + get("host")
	if port := get("port"); port != "" {
		out += ":" + port
	}
	path := get("path")
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	out += path
	if query := get("query"); query != "" {
		out += "?" + strings.TrimPrefix(query, "?")
	}
	return out, nil
}

// network reads a network in CIDR notation. An IPv4 address without a prefix has that of
// its class.
func network(text string) (netip.Prefix, bool) {
	if !strings.Contains(text, "/") {
		addr, err := netip.ParseAddr(text)
		if err != nil {
			return netip.Prefix{}, false
		}
		prefix := 128
		if addr.Is4() {
			switch first := addr.As4()[0]; {
			case first < 128:
				prefix = 8
			case first < 192:
				prefix = 16
			default:
				prefix = 24
			}
		}
		return netip.PrefixFrom(addr, prefix).Masked(), true
	}
	p, err := netip.ParsePrefix(text)
	return p.Masked(), err == nil
}

// plus returns an address at a distance.
func plus(addr netip.Addr, n *big.Int) netip.Addr {
	sum := new(big.Int).Add(new(big.Int).SetBytes(addr.AsSlice()), n)
	out, _ := netip.AddrFromSlice(sum.FillBytes(make([]byte, addr.BitLen()/8)))
	return out
}

// size returns the number of addresses of a network.
func size(p netip.Prefix) *big.Int {
	return new(big.Int).Lsh(big.NewInt(1), uint(p.Addr().BitLen()-p.Bits()))
}

func parseCIDR(c *called) (any, error) {
	text, err := c.text(0)
	if err != nil {
		return nil, err
	}
	p, ok := network(text)
	if !ok {
		return nil, errorf("The specified CIDR '%s' is not valid.", text)
	}
	bits := p.Addr().BitLen()
	last := plus(p.Addr(), new(big.Int).Sub(size(p), big.NewInt(1)))
	all := new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), uint(bits)), big.NewInt(1))
	ones := new(big.Int).Sub(all, new(big.Int).Sub(size(p), big.NewInt(1)))
	mask, _ := netip.AddrFromSlice(ones.FillBytes(make([]byte, bits/8)))
	out := jsonc.NewObject("network", p.Addr().String(), "netmask", mask.String())
	first, usable := p.Addr(), last
	if bits == 32 {
		out.Set("broadcast", last.String())
		switch {
		case p.Bits() < 31:
			first, usable = first.Next(), last.Prev()
		case p.Bits() == 31:
			usable = first // As the engine answers.
		}
	}
	out.Set("firstUsable", first.String())
	out.Set("lastUsable", usable.String())
	out.Set("cidr", int64(p.Bits()))
	return out, nil
}

func cidrSubnet(c *called) (any, error) {
	text, err := c.text(0)
	if err != nil {
		return nil, err
	}
	prefix, err := c.integer(1)
	if err != nil {
		return nil, err
	}
	index, err := c.integer(2)
	if err != nil {
		return nil, err
	}
	p, ok := network(text)
	if !ok {
		return nil, errorf("The specified CIDR '%s' is not valid.", text)
	}
	if prefix < int64(p.Bits()) || prefix > int64(p.Addr().BitLen()) {
		return nil, errorf("Could not generate subnet for network '%s' and CIDR value '%d'.", text, prefix)
	}
	count := new(big.Int).Lsh(big.NewInt(1), uint(prefix)-uint(p.Bits()))
	at := big.NewInt(index)
	if index < 0 || at.Cmp(count) >= 0 {
		return nil, errorf("The specified subnetIndex '%d' is not a valid index of the subnet size '%s'.", index, count)
	}
	subnet := netip.PrefixFrom(p.Addr(), int(prefix))
	return netip.PrefixFrom(plus(p.Addr(), at.Mul(at, size(subnet))), int(prefix)).String(), nil
}

func cidrHost(c *called) (any, error) {
	text, err := c.text(0)
	if err != nil {
		return nil, err
	}
	index, err := c.integer(1)
	if err != nil {
		return nil, err
	}
	p, ok := network(text)
	if !ok {
		return nil, errorf("The specified CIDR '%s' is not valid.", text)
	}
	// The first host has the index 0; the last address of an IPv4 network is none.
	at := new(big.Int).Add(big.NewInt(index), big.NewInt(1))
	end := size(p)
	if p.Addr().Is4() {
		end.Sub(end, big.NewInt(1))
	}
	if at.Sign() < 0 || at.Cmp(end) >= 0 {
		return nil, errorf("Could not calculate the CidrHost for network '%s' and CIDR value '%d'.", text, index)
	}
	return plus(p.Addr(), at).String(), nil
}
