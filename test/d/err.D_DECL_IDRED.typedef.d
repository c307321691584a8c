typedef int foo_t; typedef long foo_t;
