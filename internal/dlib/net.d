/* Packets, connections, interfaces. */

typedef uint32_t ipaddr_t;
typedef int netstackid_t;
typedef struct in6_addr in6_addr_t;

inline int AF_UNSPEC = 0;
inline int AF_UNIX = 1;
inline int AF_INET = 2;
inline int AF_INET6 = 10;
inline int AF_NETLINK = 16;
inline int AF_PACKET = 17;
inline int AF_VSOCK = 40;

inline int IPPROTO_IP = 0;
inline int IPPROTO_ICMP = 1;
inline int IPPROTO_IGMP = 2;
inline int IPPROTO_IPIP = 4;
inline int IPPROTO_TCP = 6;
inline int IPPROTO_EGP = 8;
inline int IPPROTO_UDP = 17;
inline int IPPROTO_IPV6 = 41;
inline int IPPROTO_ROUTING = 43;
inline int IPPROTO_FRAGMENT = 44;
inline int IPPROTO_RSVP = 46;
inline int IPPROTO_GRE = 47;
inline int IPPROTO_ESP = 50;
inline int IPPROTO_AH = 51;
inline int IPPROTO_ICMPV6 = 58;
inline int IPPROTO_NONE = 59;
inline int IPPROTO_DSTOPTS = 60;
inline int IPPROTO_OSPF = 89;
inline int IPPROTO_PIM = 103;
inline int IPPROTO_SCTP = 132;
inline int IPPROTO_RAW = 255;

typedef struct conninfo {
	string ci_local;
	string ci_remote;
	string ci_protocol;
} conninfo_t;

translator conninfo_t < struct sock *S > {
	ci_local = S == NULL ? "<unknown>" : S->__sk_common.skc_family == 2 ?
	    inet_ntoa((ipaddr_t *)&S->__sk_common.skc_rcv_saddr) : inet_ntoa6((struct in6_addr *)&S->__sk_common.skc_v6_rcv_saddr);
	ci_remote = S == NULL ? "<unknown>" : S->__sk_common.skc_family == 2 ?
	    inet_ntoa((ipaddr_t *)&S->__sk_common.skc_daddr) : inet_ntoa6((struct in6_addr *)&S->__sk_common.skc_v6_daddr);
	ci_protocol = S == NULL ? "<unknown>" : S->__sk_common.skc_family == 2 ? "ipv4" : S->__sk_common.skc_family == 10 ? "ipv6" : "<unknown>";
};

typedef struct pktinfo {
	uintptr_t pkt_addr;
} pktinfo_t;

translator pktinfo_t < struct sk_buff *P > {
	pkt_addr = (uintptr_t)P;
};

typedef struct csinfo {
	uintptr_t cs_addr;
	uint64_t cs_cid;
	pid_t cs_pid;
	int cs_zoneid;
} csinfo_t;

translator csinfo_t < struct sock *S > {
	cs_addr = (uintptr_t)S;
	cs_cid = (uint64_t)S;
	cs_pid = -1;
	cs_zoneid = 0;
};

/* An IP header of either version: the first four bits tell. */
typedef struct void_ip {
	uint8_t vi_ver;
} void_ip_t;

typedef struct ipinfo {
	uint8_t ip_ver;
	uint32_t ip_plength;
	string ip_saddr;
	string ip_daddr;
} ipinfo_t;

translator ipinfo_t < struct iphdr *I > {
	ip_ver = 4;
	ip_plength = I != NULL ? ntohs(I->tot_len) - I->ihl * 4 : 0;
	ip_saddr = I != NULL ? inet_ntoa((ipaddr_t *)&I->saddr) : "<unknown>";
	ip_daddr = I != NULL ? inet_ntoa((ipaddr_t *)&I->daddr) : "<unknown>";
};

translator ipinfo_t < struct ipv6hdr *I > {
	ip_ver = 6;
	ip_plength = I != NULL ? ntohs(I->payload_len) : 0;
	ip_saddr = I != NULL ? inet_ntoa6(&I->saddr) : "<unknown>";
	ip_daddr = I != NULL ? inet_ntoa6(&I->daddr) : "<unknown>";
};

translator ipinfo_t < void_ip_t *I > {
	ip_ver = I != NULL ? ((struct iphdr *)I)->version : 0;
	ip_plength = I == NULL ? 0 : ((struct iphdr *)I)->version == 4 ?
	    ntohs(((struct iphdr *)I)->tot_len) - ((struct iphdr *)I)->ihl * 4 : ntohs(((struct ipv6hdr *)I)->payload_len);
	ip_saddr = I == NULL ? "<unknown>" : ((struct iphdr *)I)->version == 4 ?
	    inet_ntoa((ipaddr_t *)&((struct iphdr *)I)->saddr) : inet_ntoa6(&((struct ipv6hdr *)I)->saddr);
	ip_daddr = I == NULL ? "<unknown>" : ((struct iphdr *)I)->version == 4 ?
	    inet_ntoa((ipaddr_t *)&((struct iphdr *)I)->daddr) : inet_ntoa6(&((struct ipv6hdr *)I)->daddr);
};

/* A packet whose network header is set. */
translator ipinfo_t < struct sk_buff *P > {
	ip_ver = ((struct iphdr *)(P->head + P->network_header))->version;
	ip_plength = (xlate <ipinfo_t> ((void_ip_t *)(P->head + P->network_header))).ip_plength;
	ip_saddr = (xlate <ipinfo_t> ((void_ip_t *)(P->head + P->network_header))).ip_saddr;
	ip_daddr = (xlate <ipinfo_t> ((void_ip_t *)(P->head + P->network_header))).ip_daddr;
};

/* What a connection would send, where there is no packet. */
translator ipinfo_t < struct sock *S > {
	ip_ver = S->__sk_common.skc_family == 2 ? 4 : 6;
	ip_plength = 0;
	ip_saddr = (xlate <conninfo_t> (S)).ci_local;
	ip_daddr = (xlate <conninfo_t> (S)).ci_remote;
};

typedef struct ifinfo {
	string if_name;
	int8_t if_local;
	netstackid_t if_ipstack;
	uintptr_t if_addr;
} ifinfo_t;

translator ifinfo_t < struct net_device *N > {
	if_name = N != NULL ? stringof(N->name) : "<null>";
	if_local = N != NULL ? (N->flags & 8) != 0 : 0;
	if_ipstack = 0;
	if_addr = (uintptr_t)N;
};

typedef struct ipv4info {
	uint8_t ipv4_ver;
	uint8_t ipv4_ihl;
	uint8_t ipv4_tos;
	uint16_t ipv4_length;
	uint16_t ipv4_ident;
	uint8_t ipv4_flags;
	uint16_t ipv4_offset;
	uint8_t ipv4_ttl;
	uint8_t ipv4_protocol;
	string ipv4_protostr;
	uint16_t ipv4_checksum;
	ipaddr_t ipv4_src;
	ipaddr_t ipv4_dst;
	string ipv4_saddr;
	string ipv4_daddr;
	uintptr_t ipv4_hdr;
} ipv4info_t;

inline string protostr[int p] =
    p == 1 ? "ICMP" : p == 2 ? "IGMP" : p == 4 ? "IP" : p == 6 ? "TCP" : p == 8 ? "EGP" : p == 17 ? "UDP" :
    p == 41 ? "IPV6" : p == 43 ? "ROUTE" : p == 44 ? "FRAG" : p == 46 ? "RSVP" : p == 50 ? "ESP" : p == 51 ? "AH" :
    p == 58 ? "ICMPV6" : p == 89 ? "OSPF" : p == 103 ? "PIM" : p == 132 ? "SCTP" : p == 255 ? "RAW" : lltostr(p);

translator ipv4info_t < struct iphdr *I > {
	ipv4_ver = I != NULL ? I->version : 0;
	ipv4_ihl = I != NULL ? I->ihl * 4 : 0;
	ipv4_tos = I != NULL ? I->tos : 0;
	ipv4_length = I != NULL ? ntohs(I->tot_len) : 0;
	ipv4_ident = I != NULL ? ntohs(I->id) : 0;
	ipv4_flags = I != NULL ? ntohs(I->frag_off) >> 13 : 0;
	ipv4_offset = I != NULL ? ntohs(I->frag_off) & 0x1fff : 0;
	ipv4_ttl = I != NULL ? I->ttl : 0;
	ipv4_protocol = I != NULL ? I->protocol : 0;
	ipv4_protostr = I != NULL ? protostr[I->protocol] : "<null>";
	ipv4_checksum = I != NULL ? ntohs(I->check) : 0;
	ipv4_src = I != NULL ? I->saddr : 0;
	ipv4_dst = I != NULL ? I->daddr : 0;
	ipv4_saddr = I != NULL ? inet_ntoa((ipaddr_t *)&I->saddr) : "<null>";
	ipv4_daddr = I != NULL ? inet_ntoa((ipaddr_t *)&I->daddr) : "<null>";
	ipv4_hdr = (uintptr_t)I;
};

typedef struct ipv6info {
	uint8_t ipv6_ver;
	uint8_t ipv6_tclass;
	uint32_t ipv6_flow;
	uint16_t ipv6_plen;
	uint8_t ipv6_nexthdr;
	string ipv6_nextstr;
	uint8_t ipv6_hlim;
	struct in6_addr *ipv6_src;
	struct in6_addr *ipv6_dst;
	string ipv6_saddr;
	string ipv6_daddr;
	uintptr_t ipv6_hdr;
} ipv6info_t;

translator ipv6info_t < struct ipv6hdr *I > {
	ipv6_ver = I != NULL ? I->version : 0;
	ipv6_tclass = I != NULL ? (I->priority << 4) | (I->flow_lbl[0] >> 4) : 0;
	ipv6_flow = I != NULL ? ((I->flow_lbl[0] & 0x0f) << 16) | (I->flow_lbl[1] << 8) | I->flow_lbl[2] : 0;
	ipv6_plen = I != NULL ? ntohs(I->payload_len) : 0;
	ipv6_nexthdr = I != NULL ? I->nexthdr : 0;
	ipv6_nextstr = I != NULL ? protostr[I->nexthdr] : "<null>";
	ipv6_hlim = I != NULL ? I->hop_limit : 0;
	ipv6_src = I != NULL ? &I->saddr : 0;
	ipv6_dst = I != NULL ? &I->daddr : 0;
	ipv6_saddr = I != NULL ? inet_ntoa6(&I->saddr) : "<null>";
	ipv6_daddr = I != NULL ? inet_ntoa6(&I->daddr) : "<null>";
	ipv6_hdr = (uintptr_t)I;
};

inline int TH_FIN = 0x01;
inline int TH_SYN = 0x02;
inline int TH_RST = 0x04;
inline int TH_PSH = 0x08;
inline int TH_PUSH = 0x08;
inline int TH_ACK = 0x10;
inline int TH_URG = 0x20;
inline int TH_ECE = 0x40;
inline int TH_CWR = 0x80;

/* States in Linux's numbering, as Oracle's D library has them. */
inline int TCP_STATE_IDLE = 0;
inline int TCP_STATE_ESTABLISHED = 1;
inline int TCP_STATE_SYN_SENT = 2;
inline int TCP_STATE_SYN_RECEIVED = 3;
inline int TCP_STATE_FIN_WAIT_1 = 4;
inline int TCP_STATE_FIN_WAIT_2 = 5;
inline int TCP_STATE_TIME_WAIT = 6;
inline int TCP_STATE_CLOSED = 7;
inline int TCP_STATE_CLOSE_WAIT = 8;
inline int TCP_STATE_LAST_ACK = 9;
inline int TCP_STATE_LISTEN = 10;
inline int TCP_STATE_CLOSING = 11;

inline string tcp_state_string[int state] =
    state == 0 ? "state-idle" : state == 1 ? "state-established" : state == 2 ? "state-syn-sent" :
    state == 3 ? "state-syn-received" : state == 4 ? "state-fin-wait-1" : state == 5 ? "state-fin-wait-2" :
    state == 6 ? "state-time-wait" : state == 7 ? "state-closed" : state == 8 ? "state-close-wait" :
    state == 9 ? "state-last-ack" : state == 10 ? "state-listen" : state == 11 ? "state-closing" : "<unknown>";

typedef struct tcpinfo {
	uint16_t tcp_sport;
	uint16_t tcp_dport;
	uint32_t tcp_seq;
	uint32_t tcp_ack;
	uint8_t tcp_offset;
	uint8_t tcp_flags;
	uint16_t tcp_window;
	uint16_t tcp_checksum;
	uint16_t tcp_urgent;
	uintptr_t tcp_hdr;
} tcpinfo_t;

translator tcpinfo_t < struct tcphdr *T > {
	tcp_sport = T != NULL ? ntohs(T->source) : 0;
	tcp_dport = T != NULL ? ntohs(T->dest) : 0;
	tcp_seq = T != NULL ? ntohl(T->seq) : 0;
	tcp_ack = T != NULL ? ntohl(T->ack_seq) : 0;
	tcp_offset = T != NULL ? T->doff * 4 : 0;
	tcp_flags = T != NULL ? *((uint8_t *)T + 13) : 0;
	tcp_window = T != NULL ? ntohs(T->window) : 0;
	tcp_checksum = T != NULL ? ntohs(T->check) : 0;
	tcp_urgent = T != NULL ? ntohs(T->urg_ptr) : 0;
	tcp_hdr = (uintptr_t)T;
};

typedef struct tcpsinfo {
	uintptr_t tcps_addr;
	int tcps_local;
	int tcps_active;
	uint16_t tcps_lport;
	uint16_t tcps_rport;
	string tcps_laddr;
	string tcps_raddr;
	int32_t tcps_state;
	uint32_t tcps_iss;
	uint32_t tcps_irs;
	uint32_t tcps_suna;
	uint32_t tcps_smax;
	uint32_t tcps_snxt;
	uint32_t tcps_rack;
	uint32_t tcps_rnxt;
	uint32_t tcps_swnd;
	int32_t tcps_snd_ws;
	uint32_t tcps_rwnd;
	int32_t tcps_rcv_ws;
	uint32_t tcps_cwnd;
	uint32_t tcps_cwnd_ssthresh;
	uint32_t tcps_sack_fack;
	uint32_t tcps_sack_snxt;
	uint32_t tcps_rto;
	uint32_t tcps_mss;
	int tcps_retransmit;
	uint32_t tcps_rtt;
	uint32_t tcps_rtt_sd;
	uint32_t tcps_srtt;
} tcpsinfo_t;

/* Times are milliseconds; srtt_us is eight, mdev_us four times its value. */
translator tcpsinfo_t < struct tcp_sock *T > {
	tcps_addr = (uintptr_t)T;
	tcps_local = T == NULL ? 0 : ((struct sock *)T)->__sk_common.skc_family == 2 ?
	    ((struct sock *)T)->__sk_common.skc_daddr == ((struct sock *)T)->__sk_common.skc_rcv_saddr ||
	    (((struct sock *)T)->__sk_common.skc_daddr & 0xff) == 127 : 0;
	tcps_active = 0;
	tcps_lport = T != NULL ? ((struct sock *)T)->__sk_common.skc_num : 0;
	tcps_rport = T != NULL ? ntohs(((struct sock *)T)->__sk_common.skc_dport) : 0;
	tcps_laddr = T != NULL ? (xlate <conninfo_t> ((struct sock *)T)).ci_local : "<unknown>";
	tcps_raddr = T != NULL ? (xlate <conninfo_t> ((struct sock *)T)).ci_remote : "<unknown>";
	/* 12 is a request socket that has received a SYN. */
	tcps_state = T == NULL ? 7 : ((struct sock *)T)->__sk_common.skc_state == 12 ? 3 : ((struct sock *)T)->__sk_common.skc_state;
	tcps_iss = T != NULL ? T->snd_una - (uint32_t)T->bytes_acked : 0;
	tcps_irs = T != NULL ? T->rcv_nxt - (uint32_t)T->bytes_received : 0;
	tcps_suna = T != NULL ? T->snd_una : 0;
	tcps_smax = T != NULL ? T->snd_nxt : 0;
	tcps_snxt = T != NULL ? T->snd_nxt : 0;
	tcps_rack = T != NULL ? T->rcv_nxt : 0;
	tcps_rnxt = T != NULL ? T->rcv_nxt : 0;
	tcps_swnd = T != NULL ? T->snd_wnd : 0;
	tcps_snd_ws = T != NULL ? T->rx_opt.snd_wscale : 0;
	tcps_rwnd = T != NULL ? T->rcv_wnd : 0;
	tcps_rcv_ws = T != NULL ? T->rx_opt.rcv_wscale : 0;
	tcps_cwnd = T != NULL ? T->snd_cwnd * T->mss_cache : 0;
	tcps_cwnd_ssthresh = T != NULL ? T->snd_ssthresh * T->mss_cache : 0;
	tcps_sack_fack = T != NULL ? T->highest_sack != NULL ? T->snd_nxt : T->snd_una : 0;
	tcps_sack_snxt = T != NULL ? T->snd_nxt : 0;
	tcps_rto = T != NULL ? T->inet_conn.icsk_rto : 0;
	tcps_mss = T != NULL ? T->mss_cache : 0;
	tcps_retransmit = T != NULL ? T->inet_conn.icsk_retransmits != 0 : 0;
	tcps_rtt = T != NULL ? T->srtt_us / 8000 : 0;
	tcps_srtt = T != NULL ? T->srtt_us / 8000 : 0;
	tcps_rtt_sd = T != NULL ? T->mdev_us / 4000 : 0;
};

translator tcpsinfo_t < struct sock *S > {
	tcps_addr = (uintptr_t)S;
	tcps_local = (xlate <tcpsinfo_t> ((struct tcp_sock *)S)).tcps_local;
	tcps_active = 0;
	tcps_lport = (xlate <tcpsinfo_t> ((struct tcp_sock *)S)).tcps_lport;
	tcps_rport = (xlate <tcpsinfo_t> ((struct tcp_sock *)S)).tcps_rport;
	tcps_laddr = (xlate <tcpsinfo_t> ((struct tcp_sock *)S)).tcps_laddr;
	tcps_raddr = (xlate <tcpsinfo_t> ((struct tcp_sock *)S)).tcps_raddr;
	tcps_state = (xlate <tcpsinfo_t> ((struct tcp_sock *)S)).tcps_state;
	tcps_iss = (xlate <tcpsinfo_t> ((struct tcp_sock *)S)).tcps_iss;
	tcps_irs = (xlate <tcpsinfo_t> ((struct tcp_sock *)S)).tcps_irs;
	tcps_suna = (xlate <tcpsinfo_t> ((struct tcp_sock *)S)).tcps_suna;
	tcps_smax = (xlate <tcpsinfo_t> ((struct tcp_sock *)S)).tcps_smax;
	tcps_snxt = (xlate <tcpsinfo_t> ((struct tcp_sock *)S)).tcps_snxt;
	tcps_rack = (xlate <tcpsinfo_t> ((struct tcp_sock *)S)).tcps_rack;
	tcps_rnxt = (xlate <tcpsinfo_t> ((struct tcp_sock *)S)).tcps_rnxt;
	tcps_swnd = (xlate <tcpsinfo_t> ((struct tcp_sock *)S)).tcps_swnd;
	tcps_snd_ws = (xlate <tcpsinfo_t> ((struct tcp_sock *)S)).tcps_snd_ws;
	tcps_rwnd = (xlate <tcpsinfo_t> ((struct tcp_sock *)S)).tcps_rwnd;
	tcps_rcv_ws = (xlate <tcpsinfo_t> ((struct tcp_sock *)S)).tcps_rcv_ws;
	tcps_cwnd = (xlate <tcpsinfo_t> ((struct tcp_sock *)S)).tcps_cwnd;
	tcps_cwnd_ssthresh = (xlate <tcpsinfo_t> ((struct tcp_sock *)S)).tcps_cwnd_ssthresh;
	tcps_sack_fack = (xlate <tcpsinfo_t> ((struct tcp_sock *)S)).tcps_sack_fack;
	tcps_sack_snxt = (xlate <tcpsinfo_t> ((struct tcp_sock *)S)).tcps_sack_snxt;
	tcps_rto = (xlate <tcpsinfo_t> ((struct tcp_sock *)S)).tcps_rto;
	tcps_mss = (xlate <tcpsinfo_t> ((struct tcp_sock *)S)).tcps_mss;
	tcps_retransmit = (xlate <tcpsinfo_t> ((struct tcp_sock *)S)).tcps_retransmit;
	tcps_rtt = (xlate <tcpsinfo_t> ((struct tcp_sock *)S)).tcps_rtt;
	tcps_srtt = (xlate <tcpsinfo_t> ((struct tcp_sock *)S)).tcps_srtt;
	tcps_rtt_sd = (xlate <tcpsinfo_t> ((struct tcp_sock *)S)).tcps_rtt_sd;
};

/* The state a connection had: Linux's number of it. */
typedef struct tcplsinfo {
	int32_t tcps_state;
} tcplsinfo_t;

translator tcplsinfo_t < int S > {
	tcps_state = S == 12 ? 3 : S;
};

typedef struct udpinfo {
	uint16_t udp_sport;
	uint16_t udp_dport;
	uint16_t udp_length;
	uint16_t udp_checksum;
	uintptr_t udp_hdr;
} udpinfo_t;

translator udpinfo_t < struct udphdr *U > {
	udp_sport = U != NULL ? ntohs(U->source) : 0;
	udp_dport = U != NULL ? ntohs(U->dest) : 0;
	udp_length = U != NULL ? ntohs(U->len) : 0;
	udp_checksum = U != NULL ? ntohs(U->check) : 0;
	udp_hdr = (uintptr_t)U;
};

typedef struct udpsinfo {
	uintptr_t udps_addr;
	uint16_t udps_lport;
	uint16_t udps_rport;
	string udps_laddr;
	string udps_raddr;
} udpsinfo_t;

translator udpsinfo_t < struct sock *S > {
	udps_addr = (uintptr_t)S;
	udps_lport = S != NULL ? S->__sk_common.skc_num : 0;
	udps_rport = S != NULL ? ntohs(S->__sk_common.skc_dport) : 0;
	udps_laddr = S != NULL ? (xlate <conninfo_t> (S)).ci_local : "<unknown>";
	udps_raddr = S != NULL ? (xlate <conninfo_t> (S)).ci_remote : "<unknown>";
};

translator udpsinfo_t < struct udp_sock *U > {
	udps_addr = (uintptr_t)U;
	udps_lport = (xlate <udpsinfo_t> ((struct sock *)U)).udps_lport;
	udps_rport = (xlate <udpsinfo_t> ((struct sock *)U)).udps_rport;
	udps_laddr = (xlate <udpsinfo_t> ((struct sock *)U)).udps_laddr;
	udps_raddr = (xlate <udpsinfo_t> ((struct sock *)U)).udps_raddr;
};

/* Hardware types of link_ntop(). */
inline int ARPHRD_ETHER = 1;
inline int ARPHRD_INFINIBAND = 32;
inline int ARPHRD_LOOPBACK = 772;

/* Link types of pcap(). */
inline int PCAP_NULL = 0;
inline int PCAP_ETHERNET = 1;
inline int PCAP_PPP = 9;
inline int PCAP_IP = 12;
inline int PCAP_WIFI = 105;
inline int PCAP_INFINIBAND = 247;
