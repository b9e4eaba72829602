"""The look of a panel: one style sheet, on the notebook's own colours, so that light and dark both read well."""

STYLE = """<style>
.al-panel{--al-fg:var(--jp-ui-font-color1,#222);--al-quiet:var(--jp-ui-font-color2,#666);--al-bg:var(--jp-layout-color1,#fff);
 --al-raise:var(--jp-layout-color2,#f3f3f3);--al-line:var(--jp-border-color2,#d5d5d5);
 --al-plan:#6b6b6b;--al-model:#0064a8;--al-tool:#007a59;--al-effect:#a8407e;--al-saved:#8a6100;--al-fault:#c24a00;
 --al-recovery:#0f7aa8;--al-faint:rgba(128,128,128,.17);--al-mono:var(--jp-code-font-family,ui-monospace,Menlo,monospace);color:var(--al-fg);font-size:13px;
 line-height:1.4;width:100%;overflow:visible}
body[data-jp-theme-light=false] .al-panel{--al-plan:#a8a8a8;--al-model:#62b6ff;--al-tool:#2fd3a2;--al-effect:#ee9ccb;
 --al-saved:#f0c04a;--al-fault:#ff8a4c;--al-recovery:#6ed0f5;--al-raise:#1e2126;--al-line:#3a3f47}
.al-panel .lm-Widget,.al-panel .widget-html-content,.al-panel .jupyter-widgets{overflow:visible;position:static}
.al-panel .widget-html,.al-panel .widget-html-content,.al-panel .jupyter-widgets{color:inherit;line-height:inherit;height:auto;
 font-size:inherit;max-width:none}
.al-panel .widget-html-content{flex:1 1 auto;min-width:0}
.al-columns{display:flex;flex-flow:row wrap;gap:14px;width:100%}
.al-column{flex:1 1 560px;min-width:0;border:1px solid var(--al-line);border-radius:9px;background:var(--al-bg);padding:12px 14px;
 position:relative!important;box-sizing:border-box;margin:0}
.al-column>.jupyter-widgets{margin:0 0 8px;width:100%}
.al-head{display:flex;align-items:center;gap:10px;flex-wrap:wrap}
.al-head .al-id{font-weight:650;font-size:15px;letter-spacing:.01em}
.al-task{color:var(--al-quiet)}
.al-badge{border:1px solid currentColor;border-radius:11px;padding:0 10px 1px;font-weight:650;font-size:12px;line-height:20px}
.al-badge.s-running,.al-badge.s-starting{color:var(--al-model)}.al-badge.s-recovering,.al-badge.s-new,.al-badge.s-queued{color:var(--al-recovery)}
.al-badge.s-paused,.al-badge.s-waiting{color:var(--al-saved)}.al-badge.s-completed{color:var(--al-tool)}
.al-badge.s-crashed,.al-badge.s-failed,.al-badge.s-damaged{color:var(--al-fault)}
.al-figures{display:grid;grid-template-columns:repeat(auto-fit,minmax(76px,1fr));gap:1px;margin-top:9px;background:var(--al-line);
 border:1px solid var(--al-line);border-radius:6px;overflow:hidden}
.al-figures div{background:var(--al-bg);padding:4px 9px}
.al-figures b{display:block;font:600 15px/1.25 var(--al-mono);font-variant-numeric:tabular-nums;white-space:nowrap}
.al-figures span{color:var(--al-quiet);font-size:11px}
.al-bar{height:4px;border-radius:2px;background:var(--al-line);margin-top:7px;overflow:hidden}
.al-bar i{display:block;height:4px;background:var(--al-tool)}
.al-alert{margin-top:7px;border-left:4px solid var(--al-saved);padding:1px 0 1px 8px;color:var(--al-saved);overflow-wrap:anywhere}
.al-note{color:var(--al-quiet);border-left:4px solid var(--al-line);padding:1px 0 1px 8px;margin-bottom:7px}
.al-next{margin-top:7px;display:flex;gap:8px;align-items:baseline;min-height:19px}
.al-next>span{color:var(--al-quiet);flex:none}
.al-next code,.al-said code{font:12px var(--al-mono);background:none;color:inherit;white-space:nowrap;overflow:hidden;
 text-overflow:ellipsis;padding:0}
.al-buttons{flex-flow:row wrap!important;gap:6px;align-items:center}
.al-panel .jupyter-button{height:30px;line-height:28px;width:auto;min-width:0;padding:0 12px;margin:0;border-radius:6px;
 border:1px solid var(--al-line);background:var(--al-raise);color:var(--al-fg);font-weight:550;font-size:13px;box-shadow:none;
 flex:none;overflow:visible}
.al-panel .jupyter-button:hover{border-color:var(--al-quiet);box-shadow:none}
.al-panel .jupyter-button:active{transform:translateY(1px)}
.al-panel .jupyter-button:focus-visible,.al-panel .al-m:focus-visible,.al-panel select:focus-visible,.al-panel input:focus-visible{
 outline:2px solid var(--al-model);outline-offset:1px}
.al-panel .jupyter-button.al-go{border-color:var(--al-tool);color:var(--al-tool)}
.al-panel .jupyter-button.al-strike{border-color:var(--al-fault);color:var(--al-fault);background:transparent}
.al-panel .jupyter-button.al-cannot{border-style:dashed;border-color:var(--al-line);color:var(--al-quiet);
 background:transparent}
.al-panel .jupyter-button.al-busy{opacity:.6;cursor:progress}
.al-panel .al-tabs .jupyter-button{background:transparent;border-color:transparent;border-radius:6px 6px 0 0;color:var(--al-quiet)}
.al-panel .al-tabs .jupyter-button:hover{color:var(--al-fg)}
.al-panel .al-tabs .jupyter-button.mod-active{color:var(--al-fg);box-shadow:inset 0 -3px 0 var(--al-model)}
.al-gap{width:10px;flex:none}
.al-said{min-height:20px;color:var(--al-quiet);white-space:pre-wrap;overflow-wrap:anywhere}
.al-said.bad{color:var(--al-fault)}.al-said b{color:var(--al-fg);font-weight:600}
.al-timeline{border:1px solid var(--al-line);border-radius:6px;position:relative!important;padding:6px 0 0}
.al-rows{flex-flow:row nowrap!important;align-items:flex-start}
.al-rows>.jupyter-widgets{margin:0;flex:none}
.al-lanes{padding:0 8px 0 10px}
.al-lane{height:17px;line-height:17px;font-size:11.5px;white-space:nowrap}
.al-lane b{display:inline-block;width:15px;font-weight:400}
.al-counts{padding:0 8px 0 0;text-align:right;color:var(--al-quiet);font-family:var(--al-mono);border-right:1px solid var(--al-line);
 font-variant-numeric:tabular-nums}
.al-rows>.al-track{flex:1 1 0!important;min-width:0;overflow-x:auto!important;overflow-y:hidden!important;
 flex-flow:row-reverse nowrap!important;
 justify-content:flex-start;scrollbar-width:thin;padding-bottom:3px;
 background:repeating-linear-gradient(to bottom,transparent 0 16px,var(--al-faint) 16px 17px)
 0 0/100% 119px no-repeat}
.al-track>.widget-html{margin:0;flex:none;width:auto}
.al-track>.widget-html:first-child{margin-right:auto}
.al-block{display:grid;grid-template-rows:repeat(7,17px);grid-auto-columns:11px;justify-content:start;padding:0}
.al-m{font-size:11.5px;line-height:17px;text-align:center;cursor:pointer;border-radius:3px;user-select:none;outline:none}
.al-m:hover,.al-m:focus{background:color-mix(in srgb,currentColor 22%,transparent)}
.al-pop{display:none;position:absolute;left:-1px;right:-1px;top:calc(100% - 27px);min-height:27px;box-sizing:border-box;
 padding:4px 10px 5px;text-align:left;
 background:var(--al-raise);color:var(--al-fg);border:1px solid var(--al-line);border-radius:0 0 6px 6px;z-index:3;cursor:auto;
 font-family:var(--al-mono);font-size:12px;line-height:1.45;white-space:normal}
.al-pop b{font-weight:500;display:block;white-space:pre-wrap}.al-pop i{display:none;font-style:normal;color:var(--al-quiet);
 overflow-wrap:anywhere;margin-top:2px}
.al-m:hover>.al-pop{display:block;z-index:4}.al-m:focus>.al-pop{display:block}.al-m:focus>.al-pop i{display:block}
.al-hint{color:var(--al-quiet);font-size:11.5px;padding:4px 10px;border-top:1px solid var(--al-line);min-height:22px;box-sizing:border-box;
 line-height:18px}
.al-l0{color:var(--al-plan)}.al-l1{color:var(--al-model)}.al-l2{color:var(--al-tool)}.al-l3{color:var(--al-effect)}
.al-l4{color:var(--al-saved)}.al-l5{color:var(--al-fault)}.al-l6{color:var(--al-recovery)}
.al-question{border:1px solid var(--al-saved);border-left-width:6px;border-radius:6px;padding:8px 12px;box-sizing:border-box}
.al-panel table{border-collapse:collapse;width:100%;margin:0;font-size:12.5px;color:inherit;border:none;table-layout:auto}
.al-panel th,.al-panel td{text-align:left!important;padding:3px 10px 3px 0;border:none;font-weight:400;
 border-bottom:1px solid var(--al-line); vertical-align:top;background:none!important;white-space:normal}
.al-panel th{color:var(--al-quiet);font-size:11px}
.al-num{font-family:var(--al-mono);font-variant-numeric:tabular-nums;white-space:nowrap}
.al-quiet{color:var(--al-quiet)}
.al-ck{align-items:center;border-bottom:1px solid var(--al-line);padding:2px 0;gap:6px}
.al-ck>.widget-checkbox{width:24px;flex:none;margin:0;line-height:1;height:auto}.al-ck>.widget-html{flex:1 1 auto;margin:0;min-width:0}
.al-ck .jupyter-button{height:26px;line-height:24px;padding:0 9px;font-size:12px}
.al-cells{display:grid;grid-template-columns:54px minmax(24px,.6fr) minmax(58px,1fr) 44px 54px 54px minmax(110px,2.6fr);gap:7px;
 align-items:baseline;font-size:12.5px}
.al-cells>*{overflow:hidden;text-overflow:ellipsis;white-space:nowrap}
.al-cells.al-th{color:var(--al-quiet);font-size:11px;padding:0 182px 0 30px}
.al-crash{border-left:3px solid var(--al-fault);padding:1px 0 3px 12px;margin:0 0 10px}
.al-crash.over{border-left-color:var(--al-tool)}
.al-steps{display:flex;flex-wrap:wrap;gap:5px;margin:5px 0}
.al-steps span{border:1px solid var(--al-line);border-radius:5px;padding:1px 9px;font-size:12px;white-space:nowrap}
.al-steps span.done{border-color:var(--al-tool)}.al-steps span.now{border-color:var(--al-recovery);border-style:dashed}
.al-steps span.doubt{border-color:var(--al-saved)}
.al-log{margin:0;font:12px/1.5 var(--al-mono);max-height:300px;overflow:auto;white-space:pre;background:none;color:inherit;padding:4px 0}
.al-form{flex-flow:row wrap!important;gap:6px;align-items:center}
.al-form>.jupyter-widgets{margin:0}
.al-form .widget-dropdown,.al-form .widget-text,.al-form .widget-combobox{width:auto;flex:0 1 190px}
.al-form .widget-text.al-small{flex:0 1 84px}
.al-panel select,.al-panel input[type=text],.al-panel input[type=number]{background:var(--al-bg);color:var(--al-fg);
 border:1px solid var(--al-line);border-radius:6px;height:30px;font-size:13px}
.al-warn{border:1px dashed var(--al-fault);border-radius:6px;padding:6px 11px}
.al-plots{display:grid!important;grid-template-columns:repeat(auto-fit,minmax(min(430px,100%),1fr));gap:10px}
.al-plots .widget-image,.al-plots img{width:100%;height:auto;max-width:100%}
body[data-jp-theme-light=false] .al-plots img{filter:invert(1) hue-rotate(180deg)}
.al-tabs{flex-flow:row wrap!important;gap:2px;border-bottom:1px solid var(--al-line)}
.al-meter{display:grid;grid-template-columns:130px 1fr 160px;gap:10px;align-items:center;font-size:12.5px;margin:2px 0}
.al-meter .al-bar{margin:0;height:7px}.al-meter .al-bar i{height:7px;background:var(--al-model)}
.al-meter .al-bar i.high{background:var(--al-fault)}
</style>"""
